"""Internal names of `toolbus.bus` that tests use."""

from toolbus.bus.catalog import live_catalog as live_catalog
from toolbus.bus.catalog.exposure import CALL_TOOL as CALL_TOOL
from toolbus.bus.catalog.exposure import HAS as HAS
from toolbus.bus.catalog.exposure import LACKS as LACKS
from toolbus.bus.catalog.exposure import LANGUAGE as LANGUAGE
from toolbus.bus.catalog.exposure import MODULES as MODULES
from toolbus.bus.catalog.exposure import Exposure as Exposure
from toolbus.bus.catalog.exposure import definition_cost as definition_cost
from toolbus.bus.catalog.shaping import CatalogShaper as CatalogShaper
from toolbus.bus.catalog.snapshot import BusSnapshot as BusSnapshot
from toolbus.bus.catalog.snapshot import SnapshotInputs as SnapshotInputs
from toolbus.bus.catalog.snapshot import Snapshots as Snapshots
from toolbus.bus.context import Key as Key
from toolbus.bus.context import fitted_text as fitted_text
from toolbus.bus.engine import lookup as lookup
from toolbus.bus.engine import servers as servers
from toolbus.bus.engine import tenants as tenants
from toolbus.bus.engine.stores import store_of as store_of
from toolbus.bus.inner import calls_of as calls_of
from toolbus.bus.inner import tenant_of as tenant_of
from toolbus.bus.inner import view_of as view_of
from toolbus.bus.rules.enforcement import Enforcement as Enforcement
from toolbus.bus.rules.lock import LockApprovals as LockApprovals
from toolbus.bus.rules.scope import Scope as Scope
from toolbus.bus.scripts import Scripts as Scripts
from toolbus.bus.view import View as View
