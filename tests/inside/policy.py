"""Internal names of `toolbus.policy` that tests use."""

from toolbus.policy.answers import ANSWER as ANSWER
from toolbus.policy.answers import AnswerKey as AnswerKey
from toolbus.policy.answers import Answers as Answers
from toolbus.policy.answers import StoredAnswers as StoredAnswers
from toolbus.policy.answers import file_answers as file_answers
from toolbus.policy.answers import rule_digest as rule_digest
from toolbus.policy.hints import Holds as Holds
from toolbus.policy.hints import holds as holds
from toolbus.policy.layers import Layer as Layer
from toolbus.policy.layers import Rates as Rates
from toolbus.policy.patterns import Pattern as Pattern
from toolbus.policy.rules import Policy as Policy
from toolbus.policy.rules import Verdict as Verdict
from toolbus.policy.target import STRICTNESS as STRICTNESS
from toolbus.policy.target import PolicyTarget as PolicyTarget
