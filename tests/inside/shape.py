"""Internal names of `toolbus.shape` that tests use."""

from toolbus.shape.budget import MINIMUM as MINIMUM
from toolbus.shape.budget import character_limit as character_limit
from toolbus.shape.budget import estimated_tokens as estimated_tokens
from toolbus.shape.budget import fitted as fitted
from toolbus.shape.budget import fitted_blocks as fitted_blocks
from toolbus.shape.cost import definition_tokens as definition_tokens
from toolbus.shape.dialects import DIALECTS as DIALECTS
from toolbus.shape.dialects import GRADES as GRADES
from toolbus.shape.dialects import Definition as Definition
from toolbus.shape.dialects import Dialect as Dialect
from toolbus.shape.dialects import Loss as Loss
from toolbus.shape.dialects import converted as converted
from toolbus.shape.dialects import original_arguments as original_arguments
from toolbus.shape.render import deduplicated as deduplicated
from toolbus.shape.render import rendered as rendered
from toolbus.shape.render import rendered_text as rendered_text
from toolbus.shape.render import without_base64 as without_base64
from toolbus.shape.trim import described_schema as described_schema
from toolbus.shape.trim import trimmed_schema as trimmed_schema
from toolbus.shape.trim import trimmed_text as trimmed_text
