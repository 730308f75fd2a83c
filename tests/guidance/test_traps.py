"""One named test for each case in docs/notebook/0032 in which the source's code fails."""

from collections.abc import Iterator
from typing import Any

import pytest

from pointsman.compat.guidance import (
    ClassifierConfig,
    ClassifierCooldownTracker,
    GuidanceTracker,
    LLMClassifier,
    benchmark_classifier,
    collect_guidance,
    run_classifiers,
)
from pointsman.guidance import (
    AllOfClassifier,
    AnyOfClassifier,
    ClassificationResult,
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceContext,
    GuidancePolicy,
    GuidanceProviderConfig,
    HighToolCountClassifier,
    LargeOutputClassifier,
    NotClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    ThresholdClassifier,
    default_providers,
)
from pointsman.trajectory import (
    ToolInvoked,
)
from pointsman.vocabulary import ModelQuery, ModelReply, ToolCall
from support.agent_runs import run


class Fixed:
    """A classifier that always says the same, or always raises."""

    def __init__(self, result: ClassificationResult | Exception, name: str = "fixed") -> None:
        self.result, self.name = result, name

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


YES, NO = ClassificationResult.yes(0.9, "yes", {"a": 1}), ClassificationResult.no()
UNSURE = ClassificationResult.abstain("no answer")


def at(notation: str) -> GuidanceContext:
    return GuidanceContext(None, run(notation))


@pytest.mark.parametrize(
    ("notation", "fires"),
    [
        ("a(1)x a(1)x a(1)x", True),  # the commonest loop: one call, repeated
        ("a(1)x b(1)y " * 3, True),
        ("edit(1)a test()b edit(2)c test()d edit(3)e test()f", False),  # names alone are not a loop
        ("a(1)x a(1)x", False),
    ],
)
def test_doom_loop_is_a_primitive_period_over_calls_and_results(notation: str, fires: bool) -> None:
    assert DoomLoopClassifier().classify(at(notation)).relevant is fires


def test_doom_loop_minimum_length_is_read_and_names_stay_available() -> None:
    alternating = "a(1)x b(1)y " * 3
    assert not DoomLoopClassifier(min_cycle_length=3).classify(at(alternating)).relevant
    names = DoomLoopClassifier(by="name").classify(at("edit(1)a test()b edit(2)c test()d edit(3)e test()f"))
    assert names.relevant
    assert names.metadata == {"cycle": ("edit", "test")}


def test_doom_loop_thresholds_below_the_detectors_are_honoured() -> None:
    assert DoomLoopClassifier(min_repetitions=2).classify(at("a(1)x a(1)x")).relevant
    assert not DoomLoopClassifier(min_repetitions=4).classify(at("a(1)x a(1)x a(1)x")).relevant


@pytest.mark.parametrize(("rounds", "fires"), [(3, False), (4, False), (5, True)])
def test_the_layered_threshold_of_0_8_takes_five_rounds(rounds: int, fires: bool) -> None:
    layered = ThresholdClassifier(DoomLoopClassifier(min_repetitions=3), min_confidence=0.8)
    assert layered.classify(at("a(1)x " * rounds)).relevant is fires


def test_the_default_policy_does_not_wait_for_five_rounds() -> None:
    breaker = default_providers(GuidancePolicy())[0]
    assert breaker.min_confidence <= breaker.judge.classify(at("a(1)x " * 3)).confidence


@pytest.mark.parametrize(
    ("notation", "fires"),
    [
        ("a(1)1 a(1)2 b(1)3 a(1)4 a(1)5", True),  # four of five
        ("a(1)1 a(1)2 b(1)3 a(1)4", False),  # three of four
        ("a(1)1 a(2)2 a(3)3 a(4)4 a(5)5", False),  # the arguments vary
        ("bash(1)1 bash(2)2 " + "bash(3)1 " * 5, False),  # an agent that has only a shell
        ("read(1)1 bash(2)2 " + "bash(3)1 " * 5, True),
        ("a(1)1 a(1)2", False),
        ("get_status(1)1 " * 5 + "a(1)2", False),
        ("a(1)1 " + "get_status(1)1 " * 5, False),
    ],
)
def test_single_tool_repeated_compares_arguments_inside_its_window(notation: str, fires: bool) -> None:
    assert SingleToolRepeatedClassifier().classify(at(notation)).relevant is fires


@pytest.mark.parametrize(
    ("notation", "fires"),
    [
        ("read_file(a)1 read_file(b)2 grep(c)3", True),
        ("read_file(a)1|read_file(b)2|read_file(c)3", False),  # parallel already
        ("read_file(a)1 read_file(b)2|grep(c)3", False),
        ("grep(x)found_in_app.py read_file(app.py)1 search(y)2", False),  # needed the result before
        ("read_file(a)1 edit(b)2 grep(c)3", False),
        ("read_file(a)1 grep(c)3", False),
        ("Read(a)1 Read(b)2 Grep(c)3", True),  # Claude Code
        ("Glob(a)1 WebFetch(b)2 Read(c)3", True),
        ("read(a)1 grep(b)2 list(c)3", True),  # opencode
        ("grep_search(a)1 list_directory(b)2 read_many_files(c)3", True),  # Gemini CLI, Qwen Code
        ("view(a)1 glob(b)2 grep(c)3", True),  # Copilot
        ("list_dir(a)1 grep_files(b)2 view_image(c)3", True),  # Codex
        ("Read(a)1 Edit(b)2 Read(c)3", False),
        ("Bash(a)1 Bash(b)2 Bash(c)3", False),  # nobody knows what a shell runs
        ("reader(a)1 reader(b)2 reader(c)3", False),
    ],
)
def test_sequential_when_parallel_counts_single_independent_turns(notation: str, fires: bool) -> None:
    assert SequentialWhenParallelClassifier().classify(at(notation)).relevant is fires


@pytest.mark.parametrize(
    ("sizes", "fires"),
    [
        ((10_001,), True),
        ((10_000,), False),
        ((10_001, 3), True),  # the first call of the batch
        ((3, 10_001), True),
        ((3, 3), False),
    ],
)
def test_large_output_measures_the_payload_of_every_call_of_the_batch(
    sizes: tuple[int, ...], fires: bool
) -> None:
    batch = "|".join(f"read({n})" + "x" * size for n, size in enumerate(sizes))
    assert LargeOutputClassifier().classify(at(f". {batch}")).relevant is fires


def test_large_output_is_about_the_latest_turn_only() -> None:
    assert not LargeOutputClassifier().classify(at("read(1)" + "x" * 20_000 + " .")).relevant


@pytest.mark.parametrize(
    ("arguments", "fires"),
    [
        ('{"PASSWORD": "x"}', True),
        ('{"token": "x"}', True),
        ('{"access_token": "x"}', True),
        ('{"accessToken": "x"}', True),
        ('{"apiKey": "x"}', True),
        ('{"API_KEY": "x"}', True),
        ('{"secret_key": "x"}', True),
        ('{"path": "~/.aws/credentials"}', True),
        ('{"max_tokens": 5}', False),
        ('{"maxTokens": 5}', False),
        ('{"token_count": 5}', False),
        ('{"tokenizer": "x"}', False),
        ('{"text": "the tokenization of secretary"}', False),
        ('{"total_tokens": 1, "token": "x"}', True),
    ],
)
def test_sensitive_content_ignores_case_and_matches_words(arguments: str, fires: bool) -> None:
    call = ToolCall("1", "http", arguments)
    context = GuidanceContext(None, run(""), pending_tool_calls=(call,))
    assert SensitiveContentClassifier().classify(context).relevant is fires


def test_sensitive_content_scans_a_capped_part_and_decoded_arguments() -> None:
    far = ToolInvoked("write", {"text": "x" * 20_000, "password": "y"})
    near = ToolInvoked("write", {"password": "y", "text": "x" * 20_000})
    classifier = SensitiveContentClassifier()
    assert not classifier.classify(GuidanceContext(None, run(""), pending_tool_calls=(far,))).relevant
    assert classifier.classify(GuidanceContext(None, run(""), pending_tool_calls=(near,))).relevant
    assert not classifier.classify(GuidanceContext(None, run(""))).relevant


def test_high_tool_count_fires_once_per_crossing() -> None:
    fired = [
        (count, result.confidence)
        for count in range(1, 70)
        if (result := HighToolCountClassifier().classify(at(". " * count))).relevant
    ]
    assert fired == [(40, 0.6), (50, 1.0)]


def test_high_tool_count_sees_a_crossing_inside_a_batch() -> None:
    batch = "|".join(f"read({n})x" for n in range(5))
    assert HighToolCountClassifier().classify(at(". " * 37 + batch)).relevant
    assert not HighToolCountClassifier().classify(at(". " * 41 + batch)).relevant


def test_high_tool_count_inside_a_composite_is_a_condition_not_a_moment() -> None:
    both = AllOfClassifier((HighToolCountClassifier(), ErrorStreakClassifier()))
    assert both.classify(at(". " * 60 + "E E E")).relevant
    assert not both.classify(at("E E E")).relevant
    assert not NotClassifier(HighToolCountClassifier()).classify(at(". " * 60)).relevant


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ((), NO),
        ((Fixed(YES), Fixed(NO)), NO),
        ((Fixed(NO), Fixed(UNSURE)), NO),
        ((Fixed(YES), Fixed(UNSURE)), UNSURE),
    ],
)
def test_all_of(members: tuple[Fixed, ...], expected: ClassificationResult) -> None:
    assert AllOfClassifier(members).classify(at("")) == expected


def test_all_of_merges_metadata_and_averages() -> None:
    other = ClassificationResult.yes(0.5, "too", {"b": 2})
    result = AllOfClassifier((Fixed(YES), Fixed(other))).classify(at(""))
    assert (result.confidence, result.reason, result.metadata) == (0.7, "yes; too", {"a": 1, "b": 2})


def test_any_of_takes_the_best_and_isolates_members() -> None:
    weak = ClassificationResult.yes(0.3)
    assert AnyOfClassifier((Fixed(weak), Fixed(YES))).classify(at("")) == YES
    assert AnyOfClassifier((Fixed(RuntimeError("x")), Fixed(YES))).classify(at("")) == YES
    assert AnyOfClassifier((Fixed(NO), Fixed(UNSURE))).classify(at("")) == UNSURE
    assert AnyOfClassifier(()).classify(at("")) == NO


def test_all_of_isolates_members() -> None:
    result = AllOfClassifier((Fixed(RuntimeError("x"), "shaky"), Fixed(YES))).classify(at(""))
    assert (result.abstained, result.reason) == (True, "shaky failed: RuntimeError")


class Shaky:
    name = "shaky"

    def holds(self, context: GuidanceContext) -> ClassificationResult:
        raise RuntimeError

    classify = holds


def test_a_condition_that_cannot_be_judged_abstains() -> None:
    assert AllOfClassifier((Shaky(),)).classify(at("")).abstained


@pytest.mark.parametrize(
    ("member", "relevant", "abstained"), [(YES, False, False), (NO, True, False), (UNSURE, False, True)]
)
def test_not_keeps_an_abstention(member: ClassificationResult, relevant: bool, abstained: bool) -> None:
    result = NotClassifier(Fixed(member)).classify(at(""))
    assert (result.relevant, result.abstained) == (relevant, abstained)


def test_not_of_a_model_that_timed_out_stays_silent() -> None:
    model = LLMClassifier(ask=lambda need: ModelReply(error="timeout"))
    assert not NotClassifier(model).classify(at("E")).relevant


def test_threshold_passes_an_abstention_on() -> None:
    assert ThresholdClassifier(Fixed(UNSURE), 0.5).classify(at("")) == UNSURE
    assert ThresholdClassifier(Fixed(YES), 0.5).classify(at("")) == YES


def fired_turns(cooldown: int, turns: int = 8) -> list[int]:
    tracker, classifier, config = (
        ClassifierCooldownTracker(),
        Fixed(YES),
        ClassifierConfig(cooldown_turns=cooldown),
    )
    fired = []
    for turn in range(1, turns + 1):
        context = GuidanceContext(None, run(""), turn_count=turn)
        if run_classifiers((classifier,), context, tracker=tracker, config=config):
            fired.append(turn)
    return fired


@pytest.mark.parametrize(
    ("cooldown", "turns"),
    [(0, [1, 2, 3, 4, 5, 6, 7, 8]), (1, [1, 3, 5, 7]), (2, [1, 4, 7])],
)
def test_the_runner_consults_cooldowns_and_n_skips_n_turns(cooldown: int, turns: list[int]) -> None:
    assert fired_turns(cooldown) == turns


def test_cooldowns_are_kept_by_instance_not_by_name() -> None:
    tracker, first, second = ClassifierCooldownTracker(), Fixed(YES), Fixed(YES)
    config = ClassifierConfig(cooldown_turns=5, max_fires_per_session=2)
    tracker.record_fire(first, 1)
    assert not tracker.can_fire(first, 2, config)
    assert tracker.can_fire(second, 2, config)
    tracker.record_fire(first, 7)
    assert not tracker.can_fire(first, 100, config)  # two were allowed


def test_run_classifiers_takes_the_first_and_collect_guidance_takes_all() -> None:
    context = at("a(1)!no " * 3)
    configs = (
        GuidanceProviderConfig(DiagnosticSignalProvider()),
        GuidanceProviderConfig(DoomLoopBreaker()),
    )
    first = run_classifiers(tuple(config.judge for config in configs), context)
    assert first is not None
    assert first[0] is configs[0].provider
    collected = collect_guidance(configs, context, tracker=GuidanceTracker())
    assert [injection.key for injection in collected] == ["doom_loop.breaker", "diagnostic.signal"]


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionError(), ValueError("x"), KeyError("x")])
def test_any_failure_of_a_model_abstains(failure: Exception) -> None:
    def ask(need: ModelQuery) -> ModelReply:
        raise failure

    assert LLMClassifier(ask=ask).classify(at("E")).abstained


def test_a_models_answers_are_remembered() -> None:
    asked: list[ModelQuery] = []

    def ask(need: ModelQuery) -> ModelReply:
        asked.append(need)
        return ModelReply("yes")

    classifier = LLMClassifier(ask=ask)
    assert classifier.classify(at("E E")).relevant
    assert classifier.classify(at("E E")).relevant
    assert len(asked) == 1
    for turn in range(100, 100 + 256):
        classifier.classify(GuidanceContext(None, run("E E"), turn_count=turn))
    assert classifier.classify(at("E E")).relevant
    assert len(asked) == 258  # a bounded memory: the oldest answer made room


def test_a_failure_is_not_remembered() -> None:
    replies: Iterator[ModelReply] = iter([ModelReply(error="timeout"), ModelReply("no")])
    classifier = LLMClassifier(ask=lambda need: next(replies))
    assert classifier.classify(at("E")).abstained
    assert not classifier.classify(at("E")).abstained


@pytest.mark.parametrize(
    ("text", "relevant", "abstained"),
    [("Yes.", True, False), ("NO", False, False), ("perhaps", False, True), ("", False, True)],
)
def test_a_models_answer_is_yes_no_or_neither(text: str, relevant: bool, abstained: bool) -> None:
    result = LLMClassifier(ask=lambda need: ModelReply(text)).classify(at("E"))
    assert (result.relevant, result.abstained) == (relevant, abstained)


def test_a_benchmark_warms_up_and_refuses_one_sample() -> None:
    with pytest.raises(ValueError, match="at least two"):
        benchmark_classifier(ErrorStreakClassifier(), [at("E")])

    calls: list[str] = []

    class Counting(Fixed):
        def classify(self, context: GuidanceContext) -> ClassificationResult:
            calls.append("x")
            return NO

    ticks = iter(range(100))
    measured = benchmark_classifier(Counting(NO), [at("E"), at("E E")], timer=lambda: float(next(ticks)))
    assert len(calls) == 4
    assert (measured.mean_ns, measured.p99_ns, measured.max_ns) == (1e9, 1e9, 1_000_000_000)


def test_large_output_looks_at_every_call_of_the_latest_turn_and_at_no_other() -> None:
    assert LargeOutputClassifier().classify(at("read(1)" + "x" * 10_001 + "|read(2)x|read(3)x")).relevant
    assert not LargeOutputClassifier().classify(at("read(1)" + "x" * 10_001 + " read(2)x|read(3)x")).relevant


@pytest.mark.parametrize(("confidence", "fires"), [(0.79, False), (0.8, True), (0.81, True)])
def test_a_threshold_that_is_just_met_is_met(confidence: float, fires: bool) -> None:
    said = ClassificationResult.yes(confidence)
    assert ThresholdClassifier(Fixed(said), 0.8).classify(at("")).relevant is fires


@pytest.mark.parametrize(("given", "counted"), [({}, 3), ({"turn_count": 0, "tool_call_count": 0}, 0)])
def test_counts_that_are_given_are_taken_even_when_they_are_zero(given: dict[str, Any], counted: int) -> None:
    context = GuidanceContext(None, run(". . ."), **given)
    assert (context.turn_count, context.tool_call_count) == (counted, counted)


@pytest.mark.parametrize(("shortest", "fires"), [(2, True), (3, True), (4, False)])
def test_a_cycle_of_the_shortest_length_is_a_loop(shortest: int, fires: bool) -> None:
    rounds = at("a(1)1 b(1)1 c(1)1 " * 3)
    assert DoomLoopClassifier(min_cycle_length=shortest).classify(rounds).relevant is fires
