"""Internal names of `toolbus.policy` that tests use."""

from toolbus.policy.answers import ANSWER as ANSWER
from toolbus.policy.answers import AnswerKey as AnswerKey
from toolbus.policy.answers import Answers as Answers
from toolbus.policy.answers import StoredAnswers as StoredAnswers
from toolbus.policy.answers import file_answers as file_answers
from toolbus.policy.answers import rule_digest as rule_digest
from toolbus.policy.layers import Layer as Layer
from toolbus.policy.layers import Rates as Rates
from toolbus.policy.rule import STRICTNESS as STRICTNESS
from toolbus.policy.rule import Holds as Holds
from toolbus.policy.rule import Pattern as Pattern
from toolbus.policy.rule import PolicyTarget as PolicyTarget
from toolbus.policy.rule import holds as holds
from toolbus.policy.rules import Policy as Policy
from toolbus.policy.rules import Verdict as Verdict
