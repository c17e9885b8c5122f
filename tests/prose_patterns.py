"""Patterns of awkward English, each with advice, sentences that match it, and rewrites that do not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST = 25

# After these verbs a clause is idiomatic: "the message says what happened".
_REPORTING = "".join(
    rf"(?<!\b(?i:{verb}) what )"
    for verb in re.findall(
        r"\w+",
        """say says saying said see sees seen show shows shown showing tell tells told telling
        explain explains describe describes list lists listed learn learns check checks
        decide decides report reports print prints mean means define defines ask asks asked
        state states find finds found determine determines compare compares know knows known
        out about on exactly matters affects changes""",
    )
)
# The verb of a clause without another subject: "what differs", "what is held".
_VERB = (
    r"(?:is|are|was|were|has|had|have|can|cannot|may|must|did|will|would|came|went|left|differs|waits|belongs|comes|goes|"
    r"proves|needs|calls|runs|works|holds|travels|expects|takes|remains|fits|follows|counts|lasts|ends|stays|looks|reads|"
    r"fails|matches|costs|reaches|leads|arrives|applies|depends|does|(?!happened)[a-z]+ed)"
)
_AUXILIARY = (
    r"\b(?:is|are|was|were|be|has|have|had|can|cannot|could|may|might|must|will|would|should|does|do|did|needs?|gets?|"
    r"returns?|runs|starts?|takes?|makes?|calls?|uses?|works?|shows?|prints?|ends?|waits?|applies|apply|sends?|keeps?|"
    r"stays?|fails?|reads?|counts?|becomes?|remains?|goes|go|means?|lists|opens?|closes?|adds?|sees?|knows?|reach|"
    r"reaches|responds?|restarts?|returned|sets?|tries|turns?|asks?|costs?|decides?|exits|belongs?|contains?|outlives?|holds?)\b"
)
_ENDS = r"(?=[.;:,)]|$)"

# Terms to avoid, each with the usual one.
TERMS = {
    r"anew": "again, or a new ...",
    r"to be had": "available",
    r"(?:stands?|standing|stood) still": "is paused, does not respond",
    r"at the one(?=[.,;:]|$| and\b)": "on the first",
    r"signs? of life": "a heartbeat",
    r"(?:hangs?|hung|hanging) up": "disconnect, close the connection",
    r"in vain": "without success, unsuccessfully",
    r"few values": "low cardinality",
    r"(?:made|tried|done) again(?! and)": "retried, repeated",
    r"(?:calls|users|clients|requests|turns) takes? turns|takes? turns by": "fair queueing",
    r"pass(?:es|ed|ing)? (?:it |them )?on(?! to the next)(?=[.;:,)]| to| as|$)": "forward",
    r"(?<!load )(?<!load-)balancers?": "load balancer",
    r"for ever": "forever",
    r"if need be": "if necessary",
    r"and the like": "and similar ...",
    r"so many (?:seconds|bytes|characters|times|calls|milliseconds|tokens|missed)": "this many",
    r"(?:is|are|was|were|be|being) let in|lets? (?:clients|whom|them|people|others|you) in": "admit, accept",
    r"nothing of (?:this|it|that|a|the|its)": "none of this, or name what is absent",
    r"holds? up (?:nobody|no one|the|a|its|other|others)": "block, delay",
    r"than who\b|anything else than": "only",
    r"goes? before": "precede, take precedence over",
    r"(?:came|comes|come|becomes?|became) of (?:it|them|the|a|its)": "the result, the outcome",
    r"(?:program|version|line|page|file|name|parent|learns?|warns?|tools?|digest|start) of it": "its ...",
    r"in their turns?|its turn comes": "in order, fair queueing",
    r"by whom|for whom|to whom|with whom": "name the person",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern of awkward English; `first` limits it to the first lines of docstrings, or to other text."""

    name: str
    regex: re.Pattern[str]
    advice: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]
    first: bool | None = None
    terms: Mapping[str, str] = field(default_factory=dict[str, str])

    def matches(self, sentence: str, *, first: bool = False) -> bool:
        """Whether the sentence is awkward in this way."""
        return self.first in (None, first) and self.regex.search(sentence) is not None

    def advise(self, sentence: str) -> str:
        """The advice about a sentence that matches."""
        better = [
            term
            for regex, term in self.terms.items()
            if re.search(rf"\b(?:{regex})(?!\w)", sentence, re.IGNORECASE)
        ]
        return ": ".join([self.advice, *better[:1]])


PATTERNS = (
    Pattern(
        name="first line",
        regex=re.compile(r"^(?:What|Who|Whom|Whose|How|Where|When|Which|Why)\b"),
        advice="begin with a noun phrase or a verb: 'Admission control', not 'Whom the gateway lets in'",
        wrong=("What counts once and was used.", "Who is next.", "Whom the gateway lets in."),
        right=(
            "Records that may be used once.",
            "The call queue: fair turns per user.",
            "Whether it is open.",
        ),
        first=True,
    ),
    Pattern(
        name="clause as subject",
        regex=re.compile(r"^(?:What|Who|Whom)\b(?!.*\?)|(?:^|[;:] )[Tt]hose (?:that|who|which)\b"),
        advice="name the thing: 'changes are put on hold', not 'what differs is held'",
        wrong=("What waits for a person, with its number in the navigation:", "Those that differ are held."),
        right=(
            "Everything that waits for a person; the badge counts it:",
            "Changes are put on hold.",
            "What is MCP?",
        ),
        first=False,
    ),
    Pattern(
        name="clause as noun",
        regex=re.compile(rf"what (?<=[\w,;:(] what ){_REPORTING}{_VERB}\b"),
        advice="name the thing: 'queued calls', not 'what waits'",
        wrong=("In block mode, what differs is held.", "Close it without sending what waits."),
        right=(
            "In block mode, changes are put on hold.",
            "The message says what happened.",
            "Say what to do.",
        ),
    ),
    Pattern(
        name="whoever",
        regex=re.compile(
            r"\b(?:who|whom|what|which)ever\b(?! (?:order|number|reason|version)\b)(?! the \w+[.,;)])",
            re.IGNORECASE,
        ),
        advice="name the subject ('the next user'), or write 'any', 'everything', 'regardless of'",
        wrong=("One user gets half, and whoever comes next finds room.", "Whatever is read is compared."),
        right=(
            "A single user can occupy half of the queue, so the next user always finds room.",
            "It returns the same text, whatever the input.",
        ),
    ),
    Pattern(
        name="that of",
        regex=re.compile(r"\b(?:that|those|the ones?) of\b(?! course)", re.IGNORECASE),
        advice="repeat the noun, or use a possessive: 'like `settle`', 'the default of the protocol'",
        wrong=(
            "Its answer also counts for the policy, as that of X.",
            "They have those of the attributes above.",
        ),
        right=("It works like X.", "Metrics carry only the low-cardinality attributes above."),
    ),
    Pattern(
        name="avoided term",
        regex=re.compile(rf"\b(?:{'|'.join(TERMS)})(?!\w)", re.IGNORECASE),
        advice="use the standard term",
        terms=TERMS,
        wrong=(
            "A legacy client opens its session at the one, and calls a tool at the other:",
            "A terminal or a pager that stands still holds up nobody else.",
            "in a sandbox: none of it; without one to be had, it is not started",
            "Calls are made again after a loss.",
            "Seconds between two signs of life of a worker.",
            "The lists are made anew.",
        ),
        right=(
            "Open a legacy session on the first gateway, and call a tool through the second:",
            "A paused terminal or pager does not block other commands.",
            "Calls are retried after a loss.",
            "Put a load balancer in front.",
        ),
    ),
    Pattern(
        name="weak verb",
        regex=re.compile(
            r"(?<!what )(?<!as it )\b(?:is|are|was|were) there\b(?=[.,;:)]| if| with| now|$)(?!.*\?)"
            r"|^There if\b|^There (?:is|are)\b.* (?:if|when|unless)\b"
            r"|\bholds? (?:for|if|whatever|in (?:every|the|a|all)|until|with)\b"
            r"|\bcounts? (?:as|for|from(?! \d)|once|until|only if|at once)\b(?! long)"
            r"|\bstands? (?:before|around|between)\b"
            r"|\b(?:config|entry|schema|file) says\b"
        ),
        advice="use a verb of action: 'Shown if the gateway uses keys', 'applies to', 'is treated as'",
        wrong=(
            "With several, it is there if X is X, and shows the first worker.",
            "There if keys let clients in: who has one, its view, ...",
            "The rest of X, such as the address, counts from the next start on.",
            "It holds in every framework.",
        ),
        right=(
            "Shown if the gateway uses keys.",
            "Other X settings, such as the address, take effect after a restart.",
            "They apply in every framework.",
            "Is there a server?",
        ),
    ),
    Pattern(
        name="telegram",
        regex=re.compile(
            r"^(?:Also|Nor) (?:if|those|the|an?|in|for|with|without|of|on|after|when|where|what|as|by|from)\b"
            r"|^Not (?!(?:all|every|only|each|even|a|yet)\b)[^,;]*[.:]"
            rf"|^(?:With|Without|Only|For|From|In|By|As|Of|Except) (?!.*{_AUXILIARY})[^,:;]*\.$"
            r"|^(?:Without|With) [^,:;]* that [^,:;]*\.$"
            r"|\b[Ee]xit code \d also\b"
        ),
        advice="write a whole sentence, or a phrase with a noun or an imperative: 'Include finished runs.'",
        wrong=(
            "Also those that have ended.",
            "Not damage: an incomplete line that a killed process left.",
            "Without the page that 'toolbus console' opens.",
            "Exit code 0 also if none runs.",
            "By view.",
        ),
        right=(
            "Include finished runs.",
            "Two things are reported but are not damage.",
            "Do not start the web console.",
            "Without a lockfile, every tool is offered.",
            "Not all servers support this.",
            "In Python, the list is empty.",
        ),
    ),
    Pattern(
        name="late adverb",
        regex=re.compile(
            rf"(?:, too|\btoo|, also|\balso|\bas well){_ENDS}"
            r"|, (?:and )?also (?:if|by|when|for|in|after|with|without|from|to"
            r"|of|as|on|at|before|while|where|over|across)\b"
        ),
        advice="write 'even', 'including' or nothing instead of a late ', too', 'also' or 'as well'",
        wrong=(
            "it holds in the agent, too",
            "each user for themselves, also without a browser.",
            "Such requests have their end alone as well.",
        ),
        right=(
            "it applies in the agent",
            "It also works without a browser.",
            "Such requests have only an X line.",
        ),
    ),
    Pattern(
        name="inversion",
        regex=re.compile(
            r"^(?:Which|Where|How|Whether|When) [^?,;:]* (?:says|decides|tells|shows|depends on)"
            r"(?: (?:X|the|its|an?)\b| \w+ in\b)"
            r"|(?:^|[;:] )[Oo]f (?!course)[^,;:]*, (?!such|for example)"
            r"|^(?:Against|With|By|To) [^,]* there (?:is|are)\b"
        ),
        advice="begin with the subject: 'Views are defined under `serve.views`'",
        wrong=(
            "Which views there are says serve in the config.",
            "Of the places to wait, and of the requests in flight, nobody gets more than are left.",
            "Against people there is the review of your version control.",
        ),
        right=(
            "Views are defined under X in the config.",
            "A single user can occupy at most half of the queue.",
            "To catch deliberate edits, review the file in version control.",
        ),
        first=False,
    ),
    Pattern(
        name="long sentence",
        regex=re.compile(rf"^(?:\S+ ){{{LONGEST}}}\S"),
        advice=f"split it: one condition per sentence, at most {LONGEST} words",
        wrong=(
            (
                "With several, it is shown if X is X: questions of calls that other workers make are not "
                "asked there, but refused if the client has no forms, as before."
            ),
        ),
        right=(
            "With several workers, the console is off unless you set X.",
            "It then shows only the first worker.",
        ),
    ),
    Pattern(
        name="double negative",
        regex=re.compile(
            r"\b(?:[Nn]o|[Nn]obody|[Nn]othing|[Nn]ever)\b(?! longer| if)[^,.;:()]*"
            r"\b(?:that|which|who|whose)\b[^,.;:()]*\b(?:not|no|never|cannot|nobody|nothing)\b"
        ),
        advice="say it positively: 'a call is never repeated unless that is safe'",
        wrong=("no call is made twice that must not be", "Nothing is sent that the user has not seen."),
        right=("a call is never repeated unless that is safe", "The user sees everything before it is sent."),
    ),
)
