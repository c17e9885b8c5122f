"""Internal names of `toolbus.console` that tests use."""

from toolbus.console import (
    app as app,
)
from toolbus.console.announcement import (
    runtime_folder as runtime_folder,
)
from toolbus.console.announcement import (
    runtime_folders as runtime_folders,
)
from toolbus.console.app import (
    ConsoleApp as ConsoleApp,
)
from toolbus.console.app import (
    LiveElements as LiveElements,
)
from toolbus.console.entry import (
    MOST_SESSIONS as MOST_SESSIONS,
)
from toolbus.console.entry import (
    MOST_TOKENS as MOST_TOKENS,
)
from toolbus.console.entry import (
    SESSION_SECONDS as SESSION_SECONDS,
)
from toolbus.console.entry import (
    TOKEN_SECONDS as TOKEN_SECONDS,
)
from toolbus.console.entry import (
    ConsoleEntry as ConsoleEntry,
)
from toolbus.console.html.elements import (
    Element as Element,
)
from toolbus.console.html.elements import (
    element as element,
)
from toolbus.console.html.elements import (
    live as live,
)
from toolbus.console.html.field_widgets import (
    field_widget as field_widget,
)
from toolbus.console.html.fields import (
    InputField as InputField,
)
from toolbus.console.html.fields import (
    arguments_of as arguments_of,
)
from toolbus.console.html.fields import (
    fields_of_schema as fields_of_schema,
)
from toolbus.console.html.widgets import (
    anchor as anchor,
)
from toolbus.console.page import (
    Page as Page,
)
from toolbus.console.page import (
    PageRequest as PageRequest,
)
from toolbus.console.pages import (
    BY_PATH as BY_PATH,
)
from toolbus.console.pages import (
    audit as audit,
)
from toolbus.console.pages.calls import (
    chart as chart,
)
from toolbus.console.state import (
    trials as trials,
)
from toolbus.console.state.calls import (
    LONGEST_TEXT as LONGEST_TEXT,
)
from toolbus.console.state.calls import (
    MINUTES as MINUTES,
)
from toolbus.console.state.calls import (
    MOST_CALLS as MOST_CALLS,
)
from toolbus.console.state.calls import (
    STEP as STEP,
)
from toolbus.console.state.calls import (
    CallLog as CallLog,
)
from toolbus.console.state.calls import (
    CallRecord as CallRecord,
)
from toolbus.console.state.calls import (
    Counts as Counts,
)
from toolbus.console.state.console import (
    Console as Console,
)
from toolbus.console.state.console import (
    ConsoleKeys as ConsoleKeys,
)
from toolbus.console.state.console import (
    Presence as Presence,
)
from toolbus.console.state.console import (
    TrailCheck as TrailCheck,
)
from toolbus.console.state.trials import (
    MOST_TRIALS as MOST_TRIALS,
)
