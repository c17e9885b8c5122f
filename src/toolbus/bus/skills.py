"""The skills of a view, and the same for synchronous code."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolbus.bus.engine.engine import Engine
from toolbus.bus.resources import Resources
from toolbus.bus.rules.scope import Scope
from toolbus.core.values.records import Embedded
from toolbus.core.values.skills import LoadedSkill, Skill

T = TypeVar("T")


class SkillAccess:
    """The part of a view that lists and loads skills."""

    _engine: Engine
    _scope: Scope
    _resources: Resources

    def skills(self, server: str | None = None) -> list[Skill]:
        """The skills of all servers, or of one; identified by server and URI, names may repeat."""
        self._engine.refresh_soon(self._scope, "skills")
        return self._resources.skills(server)

    async def load_skill(self, server: str, uri: str) -> LoadedSkill:
        """Load a skill, listed or not: its SKILL.md, compared with its entry.

        `SkillRejected` if the server does not offer it, or if the content is not as in the entry.
        """
        return await self._resources.load_skill(server, uri)

    async def read_skill_file(self, skill: Skill, path: str) -> Embedded:
        """Read a file of a skill, such as `references/FORMS.md`, compared with the skill's entry.

        `SkillRejected` if it is not in the entry, differs from it, or if the server has another entry now.
        """
        return await self._resources.read_skill_file(skill, path)


class SyncSkillAccess(ABC):
    """`SkillAccess` with methods that wait."""

    _skilled: SkillAccess

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the bus and wait for it."""

    def skills(self, server: str | None = None) -> list[Skill]:
        """As `Toolbus.skills`."""
        return self._skilled.skills(server)

    def load_skill(self, server: str, uri: str) -> LoadedSkill:
        """As `Toolbus.load_skill`."""
        return self.run(self._skilled.load_skill(server, uri))

    def read_skill_file(self, skill: Skill, path: str) -> Embedded:
        """As `Toolbus.read_skill_file`."""
        return self.run(self._skilled.read_skill_file(skill, path))
