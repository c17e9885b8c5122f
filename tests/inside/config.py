"""Internal names of `toolbus.config` that tests use."""

from toolbus.config.editing.change import (
    TextChange as TextChange,
)
from toolbus.config.editing.change import (
    edited as edited,
)
from toolbus.config.editing.edit import (
    new_document as new_document,
)
from toolbus.config.editing.edit import (
    servers_in as servers_in,
)
from toolbus.config.editing.edit import (
    with_servers as with_servers,
)
from toolbus.config.editing.edit import (
    with_switch as with_switch,
)
from toolbus.config.editing.edit import (
    without_server as without_server,
)
from toolbus.config.editing.host_file import (
    host_document as host_document,
)
from toolbus.config.editing.host_file import (
    with_entry as with_entry,
)
from toolbus.config.editing.host_file import (
    without_entry as without_entry,
)
from toolbus.config.editing.yaml_json import (
    NotEditable as NotEditable,
)
from toolbus.config.editing.yaml_json import (
    Steps as Steps,
)
from toolbus.config.editing.yaml_text import (
    TEMPLATE as TEMPLATE,
)
from toolbus.config.editing.yaml_text import (
    as_yaml as as_yaml,
)
from toolbus.config.find import (
    with_config_cwd as with_config_cwd,
)
from toolbus.config.hosts.convert import (
    ImportedServers as ImportedServers,
)
from toolbus.config.hosts.convert import (
    imported as imported,
)
from toolbus.config.hosts.dialects import (
    SETTINGS as SETTINGS,
)
from toolbus.config.hosts.dialects import (
    container as container,
)
from toolbus.config.hosts.editors import (
    EDITORS as EDITORS,
)
from toolbus.config.hosts.editors import (
    ImportFile as ImportFile,
)
from toolbus.config.hosts.editors import (
    found_files as found_files,
)
from toolbus.config.hosts.editors import (
    user_file as user_file,
)
from toolbus.config.hosts.entry import (
    IGNORED as IGNORED,
)
from toolbus.config.hosts.entry import (
    KEYS as KEYS,
)
from toolbus.config.hosts.host_auth import (
    SIGN_IN as SIGN_IN,
)
from toolbus.config.hosts.host_entry import (
    FORMS as FORMS,
)
from toolbus.config.hosts.host_entry import (
    container_in as container_in,
)
from toolbus.config.hosts.host_entry import (
    is_toolbus as is_toolbus,
)
from toolbus.config.hosts.host_files import (
    FILE as FILE,
)
from toolbus.config.hosts.host_files import (
    host_config as host_config,
)
from toolbus.config.hosts.read import (
    document_in as document_in,
)
from toolbus.config.hosts.read import (
    read_document as read_document,
)
from toolbus.config.hosts.read import (
    without_comments as without_comments,
)
from toolbus.config.launch import (
    administrator as administrator,
)
from toolbus.config.launch.administrator import (
    Administrator as Administrator,
)
from toolbus.config.launch.administrator import (
    AdministratorPolicy as AdministratorPolicy,
)
from toolbus.config.launch.administrator import (
    LaunchList as LaunchList,
)
from toolbus.config.launch.administrator import (
    PolicyFile as PolicyFile,
)
from toolbus.config.launch.administrator import (
    policy_folders as policy_folders,
)
from toolbus.config.launch.administrator import (
    read_administrator as read_administrator,
)
from toolbus.config.launch.patterns import (
    ResolvedLaunch as ResolvedLaunch,
)
from toolbus.config.launch.patterns import (
    url_allowed as url_allowed,
)
from toolbus.config.launch.patterns import (
    url_denied as url_denied,
)
from toolbus.config.launch.patterns import (
    url_problem as url_problem,
)
from toolbus.config.location import (
    Location as Location,
)
from toolbus.config.location import (
    is_list as is_list,
)
from toolbus.config.location import (
    is_mapping as is_mapping,
)
from toolbus.config.model import (
    check_alias as check_alias,
)
from toolbus.config.permitted import (
    permitted_config as permitted_config,
)
from toolbus.config.secrets.expand import (
    resolved as resolved,
)
from toolbus.config.secrets.literals import (
    Secret as Secret,
)
from toolbus.config.secrets.lookup import (
    MissingValue as MissingValue,
)
from toolbus.config.secrets.lookup import (
    Secrets as Secrets,
)
from toolbus.config.secrets.redact import (
    Redactor as Redactor,
)
from toolbus.config.secrets.reference import (
    Reference as Reference,
)
from toolbus.config.settings import (
    expose as expose,
)
from toolbus.config.settings.audit import (
    Audit as Audit,
)
from toolbus.config.settings.audit import (
    Content as Content,
)
from toolbus.config.settings.limits import (
    ServerLimits as ServerLimits,
)
from toolbus.config.settings.policy import (
    Hint as Hint,
)
from toolbus.config.settings.policy import (
    PolicyRule as PolicyRule,
)
from toolbus.config.settings.policy import (
    read_policy as read_policy,
)
from toolbus.config.settings.sandbox import (
    Sandbox as Sandbox,
)
from toolbus.config.settings.serve import (
    Serve as Serve,
)
from toolbus.config.settings.serve import (
    ServeAuth as ServeAuth,
)
from toolbus.config.settings.serve import (
    ServeView as ServeView,
)
from toolbus.config.settings.serve import (
    Tls as Tls,
)
from toolbus.config.settings.serve import (
    read_serve as read_serve,
)
from toolbus.config.settings.store import (
    StoreSetting as StoreSetting,
)
from toolbus.config.settings.telemetry import (
    Telemetry as Telemetry,
)
from toolbus.config.trust import (
    accept as accept,
)
from toolbus.config.trust import (
    candidate as candidate,
)
from toolbus.config.trust import (
    distrust as distrust,
)
from toolbus.config.trust import (
    forget as forget,
)
from toolbus.config.trust import (
    trusted_config as trusted_config,
)
