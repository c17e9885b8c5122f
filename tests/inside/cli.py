"""Internal names of `toolbus.cli` that tests use."""

from toolbus.cli.app import (
    app as app,
)
from toolbus.cli.chat.background import (
    background_loop as background_loop,
)
from toolbus.cli.chat.conversation import (
    ChatTurns as ChatTurns,
)
from toolbus.cli.chat.models import (
    KEYS as KEYS,
)
from toolbus.cli.chat.models import (
    LOCAL as LOCAL,
)
from toolbus.cli.chat.models import (
    SEARCH_SECONDS as SEARCH_SECONDS,
)
from toolbus.cli.chat.models import (
    find_local_model as find_local_model,
)
from toolbus.cli.chat.prompter import (
    Prompter as Prompter,
)
from toolbus.cli.commands.safety.trust import (
    trust_written as trust_written,
)
from toolbus.cli.completion.shells import (
    SAFE as SAFE,
)
from toolbus.cli.completion.shells import (
    rejoined_words as rejoined_words,
)
from toolbus.cli.declared.command_tree import (
    command_tree as command_tree,
)
from toolbus.cli.declared.command_tree import (
    keep_environment as keep_environment,
)
from toolbus.cli.errors import (
    Usage as Usage,
)
from toolbus.cli.input.arguments import (
    described as described,
)
from toolbus.cli.input.arguments import (
    given as given,
)
from toolbus.cli.input.arguments import (
    read as read,
)
from toolbus.cli.input.values import (
    typed as typed,
)
from toolbus.cli.listing_cache import (
    last_inventories as last_inventories,
)
from toolbus.cli.listing_cache import (
    save_listings as save_listings,
)
from toolbus.cli.login_prompt import (
    WrongPaste as WrongPaste,
)
from toolbus.cli.login_prompt import (
    redirect_in as redirect_in,
)
from toolbus.cli.options import (
    SharedOptions as SharedOptions,
)
from toolbus.cli.output.run_hints import (
    Hints as Hints,
)
from toolbus.cli.output.run_hints import (
    answer_text as answer_text,
)
from toolbus.cli.output.screen import (
    Screen as Screen,
)
from toolbus.cli.output.serve_log import (
    ServeLog as ServeLog,
)
from toolbus.cli.suggested import (
    repeat_config as repeat_config,
)
from toolbus.cli.suggested import (
    suggested as suggested,
)
