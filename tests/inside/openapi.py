"""Internal names of `toolbus.openapi` that tests use."""

from toolbus.config.settings.openapi import OpenApi as OpenApi
from toolbus.openapi.bodies import UnusableArguments as UnusableArguments
from toolbus.openapi.client import ApiResponse as ApiResponse
from toolbus.openapi.client import Reach as Reach
from toolbus.openapi.client import RequestRefused as RequestRefused
from toolbus.openapi.client import Sender as Sender
from toolbus.openapi.client import api_sender as api_sender
from toolbus.openapi.client import fetched_document as fetched_document
from toolbus.openapi.document import DocumentError as DocumentError
from toolbus.openapi.document import read_document as read_document
from toolbus.openapi.operation import ApiOperation as ApiOperation
from toolbus.openapi.operation import Body as Body
from toolbus.openapi.operation import Parameter as Parameter
from toolbus.openapi.operation import PartEncoding as PartEncoding
from toolbus.openapi.operation import Place as Place
from toolbus.openapi.operation import Style as Style
from toolbus.openapi.operations import Api as Api
from toolbus.openapi.operations import ApiSource as ApiSource
from toolbus.openapi.operations import read_api as read_api
from toolbus.openapi.request import build as build
