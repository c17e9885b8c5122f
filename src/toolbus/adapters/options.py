"""Options that several adapters share."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from toolbus.adapters.approval import ApprovalRule, NeedsApproval
from toolbus.adapters.media import AUDIO_TYPES, IMAGE_TYPES, Document, pdf_documents
from toolbus.core.values.errors import ExtraMissing
from toolbus.core.values.records import ToolResult
from toolbus.shape import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions:
    """The dialect of tool definitions, which tools need approval, and which media the model accepts."""

    dialect: Dialect = "openai"
    approve: ApprovalRule[NeedsApproval] = "never"
    audio: bool = False
    files: bool = False

    @property
    def media_types(self) -> frozenset[str]:
        """The MIME types of images and audio that the model accepts."""
        return IMAGE_TYPES | AUDIO_TYPES if self.audio else IMAGE_TYPES

    def documents(self, result: ToolResult) -> list[Document]:
        """The PDFs of a result, if the model accepts files."""
        return pdf_documents(result) if self.files else []


@contextmanager
def require_extra(extra: str) -> Generator[None]:
    """Turn an ImportError of an adapter's imports into `ExtraMissing`, which names the extra."""
    try:
        yield
    except ImportError as error:
        raise ExtraMissing(f"toolbus.adapters.{extra.replace('-', '_')}", extra, str(error)) from error
