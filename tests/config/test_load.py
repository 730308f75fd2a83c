# ruff: noqa: E501 - a table of cases reads better unwrapped
"""From a file to a ``Config``, and every mistake in it named with its line and the way out."""

from importlib import resources
from pathlib import Path

import pytest

from pointsman.config import Config, examine, find, load
from pointsman.config.edit import as_toml, plain
from pointsman.errors import ConfigError
from pointsman.model_choice.chains import TierModel
from pointsman.upstreams.port import ServerSpec, caller_name, hash_key
from pointsman.vocabulary import ModelSpec, Tier, WireFormat

ENV = {"MAIN_API_KEY": "canary-key", "POINTSMAN_KEY": "canary-caller"}

#: The configuration that docs/reference/configuration.md shows for most people, with a comment per line.
WHOLE = """\
[upstreams.main]
base_url = "https://llm.example.com/v1"
api_key  = "${MAIN_API_KEY}"
formats  = ["chat", "responses", "messages"]   # what it speaks natively

[models]                                        # name -> upstream, price per million tokens, context window, features
small = { upstream = "main", id = "small-1", input_per_million = 0.10, output_per_million = 0.40, cached_input_per_million = 0.01, context_window = 128_000 }
large = { upstream = "main", id = "large-3", input_per_million = 3.00, output_per_million = 15.00, cached_input_per_million = 0.30, context_window = 200_000, features = ["tools", "vision"] }

[tiers]
profile   = "default"
simple    = "small"
medium    = "small"
complex   = "large"
reasoning = "large"
verify    = { model = "small", margin = 0.05, share = 0.15, timeout_ms = 500 }

[guidance]
mode    = "on"         # off | observe (decide and record, add nothing) | on
control = 0.1          # share of sessions in which a due hint is withheld, to learn whether hints help

[domains]
mode = "observe"
"""


def write(directory: Path, text: str) -> Path:
    file = directory / "pointsman.toml"
    file.write_text(text, encoding="utf-8")
    return file


def read(directory: Path, text: str) -> Config:
    return load(write(directory, text), ENV)


def test_the_whole_of_it_for_most_people(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    main = config.upstreams["main"]
    assert (main.name, main.base_url) == ("main", "https://llm.example.com/v1")
    assert main.api_key is not None
    assert main.api_key.reveal() == "canary-key"
    assert config.models["large"] == ModelSpec(
        name="large",
        upstream="main",
        id="large-3",
        input_per_million=3.0,
        output_per_million=15.0,
        cached_input_per_million=0.3,
        context_window=200_000,
        features=frozenset({"tools", "vision"}),
        formats=frozenset(WireFormat),
    )
    assert config.models["small"].features is None
    assert config.tiers.models == {
        Tier.SIMPLE: "small",
        Tier.MEDIUM: "small",
        Tier.COMPLEX: "large",
        Tier.REASONING: "large",
    }
    verify = config.tiers.verify
    assert verify is not None
    assert (verify.model, verify.margin, verify.share, verify.timeout_ms) == ("small", 0.05, 0.15, 500)
    assert (config.guidance.mode, config.guidance.control, config.domains.mode) == ("on", 0.1, "observe")
    assert "canary" not in repr(config)


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ('formats = ["chat"]', {WireFormat.RESPONSES, WireFormat.MESSAGES}),
        ('formats = ["chat"]\ntranslate = false', set()),
        ('formats = ["chat", "responses"]', {WireFormat.MESSAGES}),
        ("", set()),
    ],
)
def test_what_is_translated_for_a_model(tmp_path: Path, text: str, translated: set[WireFormat]) -> None:
    model = read(tmp_path, MODELS.replace("[models]", f"{text}\n[models]")).models["small"]
    assert model.translated == translated
    assert all(model.takes(wire) == (wire in model.formats or wire in translated) for wire in WireFormat)


LARGE = 'large = { upstream = "main", id = "l" }\n'
POOLS = """\
[tiers]
simple = "small"
medium = ["small", { model = "large", weight = 0.5 }]
complex = { model = "large", temperature = 0.2 }
[tiers.reasoning]
model = "large"
effort = "high"
max_tokens = 32_000
"""


def test_the_models_of_a_tier(tmp_path: Path) -> None:
    tiers = read(tmp_path, MODELS + LARGE + POOLS).tiers
    small = TierModel(model="small")
    assert tiers.pools == {
        Tier.SIMPLE: (small,),
        Tier.MEDIUM: (small, TierModel(model="large", weight=0.5)),
        Tier.COMPLEX: (TierModel(model="large", temperature=0.2),),
        Tier.REASONING: (TierModel(model="large", effort="high", max_tokens=32_000),),
    }
    assert tiers.models == dict(zip(Tier, ("small", "small", "large", "large"), strict=True))


def test_the_models_of_a_tier_are_shown_as_they_are_read(tmp_path: Path) -> None:
    loaded = examine(write(tmp_path, MODELS + LARGE + POOLS), ENV)
    assert loaded.file is not None
    shown = as_toml(plain(loaded.file))
    assert 'medium = ["small", { model = "large", weight = 0.5 }]' in shown
    again = read(tmp_path, shown)
    assert again.tiers.pools == loaded.file.tiers.pools


def test_nobodys_prompt_is_changed_unasked(tmp_path: Path) -> None:
    config = read(tmp_path, "")
    assert (config.guidance.mode, config.domains.mode) == ("observe", "observe")
    assert config.server.host == "127.0.0.1"
    assert config.ledger.text == "off"
    assert config.capabilities.tools is None
    assert config.tiers.verify is None


KEY = "[keys.ci]\nsha256 = '" + 64 * "0" + "'\n"
BODY = "[upstreams.main]\nbase_url = 'http://127.0.0.1:9/v1'\n\n[upstreams.main.body]\n"
MODELS = """\
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
small = { upstream = "main", id = "s" }
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n[tiers]\nboundries = [0, 0.1, 0.2]", '4: unknown key "boundries" in [tiers]; did you mean "boundaries"?'),
        ("[upstreams.a]\nkey = '${MAIN_API_KEY}'\nbase_url = 'http://a'", '2: "key" in [upstreams.a] is now "api_key"'),
        ("[models]\nm = { upstream = 'a', id = 'x', in = 1 }", '2: "in" in [models.m] is now "input_per_million"'),
        ("[models]\nm = { upstream = 'a', id = 'x', out = 1 }", '2: "out" in [models.m] is now "output_per_million"'),
        ("[models]\nm = { upstream = 'a', id = 'x', cached_in = 1 }", '2: "cached_in" in [models.m] is now "cached_input_per_million"'),
        ("[models]\nm = { upstream = 'a', id = 'x', window = 1 }", '2: "window" in [models.m] is now "context_window"'),
        ("[models]\nm = { upstream = 'a', id = 'x', abilities = ['tools'] }", '2: "abilities" in [models.m] is now "features"'),
        ("[tiers.head]\nfile = 'x'", '1: "head" in [tiers] is now "learned_router"'),
        ("[models]\nm = { upstream = 'a', id = 'x', formats = ['chat'] }", '2: unknown key "formats" in [models.m]'),
        ("[tires]\nsimple = 'x'", '1: unknown key "tires"; did you mean "tiers"?'),
        ("[guidance]\nzzz = 1", '2: unknown key "zzz" in [guidance]'),
        ("[models]\nm = { upstram = 'a', id = 'b', upstream = 'a' }", '2: unknown key "upstram" in [models.m]; did you mean "upstream"?'),
        ("[upstreams.a]\nname = 'b'\nbase_url = 'http://a'", '2: unknown key "name" in [upstreams.a]'),
        ("[tiers.verify]\nmargin = 0.1", "1: no model to verify with: tier SIMPLE has none"),
        ("[tiers]\n\nverify = { margin = 0.1 }", "3: no model to verify with: tier SIMPLE has none"),
        ("tiers = 3", "1: [tiers] must be a table"),
        ("[models]\nsmall = 'gpt'", "2: [models.small] must be a table"),
        ("models = 1", "1: [models] must be a table"),
        ("[guidance]\nmode = 'onn'", '2: "mode" in [guidance] must be one of "off", "observe", "on", not "onn"; did you mean "on"?'),
        ("[guidance]\ncontrol = 10", '2: "control" in [guidance] must be a number from 0 to 1, not 10'),
        ("[server]\nport = '80'", '2: "port" in [server] must be a whole number from 0 to 65535, not "80"'),
        ("[server]\nlimits = { body_bytes = 0 }", '2: "body_bytes" in [server.limits] must be a whole number of at least 1, not 0'),
        ("[upstreams.a]\nbase_url = 'http://a'\ntimeouts.connect = 0", '3: "connect" in [upstreams.a.timeouts] must be a number above 0, not 0'),
        ("[upstreams.a]\nbase_url = 'http://a'\nconnections = 0", '3: "connections" in [upstreams.a] must be a whole number of at least 1, not 0'),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 3", '3: "proxy" in [upstreams.a] must be an address such as "http://proxy:3128"'),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 'socks5://p:1'", '3: proxy: proxies of the scheme "socks5" are not supported'),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 'http://p:99999'", "3: proxy is not a proxy address"),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 'http://user:canary@p:1'", "3: user and password of a proxy must be references"),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 'user:canary${MAIN_API_KEY}@p:1'", "3: user and password of a proxy must be references"),
        ("[upstreams.a]\nbase_url = 'http://a'\nproxy = 'http://${NOWHERE_PASSWORD}@p:1'", "3: environment variable NOWHERE_PASSWORD is not set"),
        ("[upstreams.a]\nbase_url = 'http://a'\nca_file = 'none.pem'", '3: upstream "a": ca_file '),
        ("[tiers]\n[guidance]\n[tiers]", "3: Cannot declare [tiers] twice"),
        ("[tiers.learned_router]\n[tiers.learned_router]", "2: Cannot declare [tiers.learned_router] twice"),
        ("[ledger]\npath = '.'", "2: "),
        ("[guidance]\nmode = off", "2: Invalid value: text stands in quotes, a number begins with a digit"),
        ("[tiers]\nboundaries = [nan, 0.1, 0.2]", "2: boundaries must not fall from one tier to the next"),
        ("[sessions]\nstore = 'valkey'\nurl = 'http://host:6379'", '3: "http://host:6379" is no address of Valkey'),
        ("[sessions]\nstore = 'valkey'\nurl = 'host://u:sk-canary@host'", '3: "host://host" is no address of Valkey'),
        ("[upstreams.a]\nbase_url = 'u:sk-canary@host/v1'", '2: "…" is not an http'),
        ("[upstreams.a]\nbase_url = 'http://u:sk-canary?@h:99999/v1?sk-canary'", '2: "http://h:99999/v1" is not an http'),
        ("[server]\nhost = ''", '2: "" can be reached by others, and [server] has no keys'),
        (
            "[server]\nkeys = ['sha256:" + 64 * "0" + "']\n[keys.ci]\nsha256 = '" + 64 * "0" + "'",
            "4: this key is that of [server] too",
        ),
        ("[keys.'a/b']\nsha256 = '" + 64 * "0" + "'", '1: "a/b" cannot name a key'),
        ("[keys.ci]\nsha256 = 'canary'", "2: a SHA-256 hash has 64 hexadecimals"),
        ("[keys.ci]", '1: [keys.ci] has no "sha256"'),
        (KEY + "more_sha256 = ['" + 64 * "0" + "']", "3: this key is that of [keys.ci] too"),
        (KEY + "team = 'reserch'\n[teams.research]", '3: unknown team "reserch"; did you mean "research"?'),
        ("[teams.'a b']", '1: "a b" cannot name a team'),
        (KEY + "models = ['gpt-*']", '3: "gpt-*" is no configured model'),
        (KEY + "when_low = 'lower_tier'", "3: there is no budget that could be low"),
        (KEY + "budget = { money = 1 }\n[access]\nstore = 'memory'", '3: no store can vouch for this budget: [access] store = "memory" begins at 0'),
        (KEY + "budget = { money = -1 }", '3: "money" in [keys.ci.budget] must be a number from 0 to 1e+09, not -1'),
        (KEY + "budget = { money = 1, per = 'year' }", '3: "per" in [keys.ci.budget] must be one of "day", "hour", "month", "week", not "year"'),
        (KEY + "requests_per_minute = 0", '3: "requests_per_minute" in [keys.ci] must be a whole number from 1 to 1e+12, not 0'),
        (KEY + "expires = 'soon'", '3: "expires" in [keys.ci] must be a date such as 2026-01-31, not "soon"'),
        (KEY + "role = 'root'", '3: "role" in [keys.ci] must be one of "admin", "caller", "viewer", not "root"'),
        (KEY + "role = 'caller'\n[console]\ncallers = ['ci']", '3: [console] callers names "ci", whose role is "caller"'),
        ("[access]\nstore = 'valkey'", '2: store "valkey" needs its address'),
        ("[access]\nstore = 'valkey'\n[sessions]\nurl = 'redis://:canary@h/0'", "4: the address must not carry a password"),
        ("[server]\nkeys = ['sha256:canary']", "2: a SHA-256 hash has 64 hexadecimals"),
        ("[server]\nrouter_command = 'yes'", '2: "router_command" in [server] must be true or false, not "yes"'),
        ("[tiers]\nboundaries = [1, 2]", '2: "boundaries" in [tiers] must be a list of 3 numbers, not [1,2]'),
        ("[tiers]\nprofile = 1979-05-27", '2: "profile" in [tiers] must be a string, not "1979-05-27"'),
        ("[ledger]\npath = 3", '2: "path" in [ledger] must be a path, not 3'),
        ("[upstreams.a]\nbase_url = 'http://a'\nformats = ['chatt']", '3: "formats" in [upstreams.a] must be a list of "chat", "responses", "messages", not ["chatt"]'),
        ("[guidance]\npoll_tools = 'wait'", '2: "poll_tools" in [guidance] must be a list of strings, not "wait"'),
        ("[server]\nkeys = '${POINTSMAN_KEY}'", '2: "keys" in [server] must be a list of references such as "${NAME}"'),
        ("[server]\nkeys = 'sk-canary'", '2: "keys" in [server] must be a list of references such as "${NAME}"'),
        ("[upstreams.a]\napi_key = '${MAIN_APIKEY}'\nbase_url = 'http://a'", '2: environment variable MAIN_APIKEY is not set; did you mean "MAIN_API_KEY"?'),
        ("[upstreams.a]\nbase_url = '${NO_SUCH}/v1'", "2: environment variable NO_SUCH is not set"),
        ("[upstreams.a]\napi_key = 'sk-canary'\nbase_url = 'http://a'", "2: a key must be a reference to an environment variable, never the key itself"),
        ("[upstreams.a]\nbase_url = 'llm.example.com'", '2: "…" is not an http or https address'),
        ("[upstreams.a]\nbase_url = 'http://h:99999/v1'", '2: "http://h:99999/v1" is not an http'),
        ("[upstreams.a]\nbase_url = 'http://[::1/v1'", '2: "http://[::1/v1" is not an http'),
        ("[upstreams.a]\nbase_url = 'http://a..b/v1'", '2: "http://a..b/v1" is not an http'),
        ("[upstreams.a]\nbase_url = 'http://u:p@h/v1'", "2: the address must not carry a user, a query or a fragment"),
        ("[upstreams.a]\nbase_url = 'http://a'\nprovider = 'opnai'", '3: unknown provider "opnai"; did you mean "openai"?'),
        ("[upstreams.a]\nbase_url = 'http://a'\nformats = []", '3: upstream "a" speaks no format'),
        ("[models]\nm = { upstream = 'mian', id = 'x' }\n[upstreams.main]\nbase_url = 'http://a'", '2: unknown upstream "mian"; did you mean "main"?'),
        ("[models]\nm = { upstream = 'x', id = 'x' }", '2: unknown upstream "x"'),
        (MODELS + "auto = { upstream = 'main', id = 'x' }", '5: "auto" cannot name a model: it asks for a tier'),
        (MODELS + "[tiers]\nsimple = 'smal'", '6: unknown model "smal"; did you mean "small"?'),
        (MODELS + "[tiers]\nsimple = ['small',\n 'smal']", '7: unknown model "smal"; did you mean "small"?'),
        (MODELS + "[tiers]\nsimple = [{ model = 'small' },\n { model = 'smal' }]", '7: unknown model "smal"; did you mean "small"?'),
        (MODELS + "[tiers.simple]\n\nmodel = 'smal'", '7: unknown model "smal"; did you mean "small"?'),
        (MODELS + "[tiers]\nsimple = ['small',\n { model = 'small', weight = 2 }]", '7: "small" stands twice among the models of one tier'),
        (MODELS + "[tiers]\nsimple = []", '6: "simple" in [tiers] must be a model\'s name, a table, or a list of both, not []'),
        (MODELS + "[tiers]\nsimple = 3", '6: "simple" in [tiers] must be a model\'s name, a table, or a list of both, not 3'),
        (MODELS + "[tiers]\nsimple = ['small', 3]", '6: "simple" in [tiers] must be a model\'s name, a table, or a list of both, not ["small",3]'),
        (MODELS + "[tiers]\nsimple = {}", '6: [tiers.simple] has no "model"'),
        (MODELS + "[tiers]\nsimple = [{ model = 'small' },\n {}]", '7: [tiers.simple] entry 2 has no "model"'),
        (MODELS + "[tiers]\nsimple = { model = 'small', weigth = 1 }", '6: unknown key "weigth" in [tiers.simple]; did you mean "weight"?'),
        (MODELS + "[tiers]\nsimple = { model = 'small', weight = 0 }", '6: "weight" in [tiers.simple] must be a number above 0, not 0'),
        (MODELS + "[tiers]\nsimple = [{ model = 'small', weight = -1 }]", '6: "weight" in [tiers.simple] entry 1 must be a number above 0, not -1'),
        (MODELS + "[tiers]\nsimple = { model = 'small', weight = inf }", '6: "weight" must be a positive, finite number'),
        (MODELS + "[tiers]\nsimple = { model = 'small', weight = nan }", '6: "weight" in [tiers.simple] must be a number above 0'),
        (MODELS + "[tiers]\nsimple = { model = 'small', effort = 'hgih' }", '6: "effort" in [tiers.simple] must be one of "high", "low", "max", "medium", "minimal", "none", "xhigh", not "hgih"; did you mean "high"?'),
        (MODELS + "[tiers]\nsimple = { model = 'small', thinking_budget = 1023 }", '6: "thinking_budget" in [tiers.simple] must be a whole number of at least 1024, not 1023'),
        (MODELS + "[tiers]\nsimple = { model = 'small', max_tokens = 0 }", '6: "max_tokens" in [tiers.simple] must be a whole number of at least 1, not 0'),
        (MODELS + "[tiers]\nsimple = { model = 'small', temperature = 3 }", '6: "temperature" in [tiers.simple] must be a number from 0 to 2, not 3'),
        (MODELS + "[tiers.simple]\nmodel = 'small'\nthinking_budget = 2048\nmax_tokens = 2048", '7: "thinking_budget" must be less than "max_tokens"'),
        (MODELS + "[tiers]\nverify = { model = 'large' }", '6: unknown model "large"'),
        (MODELS + "[tiers]\nverify = { model = 'small', money_per_day = 1 }", '6: the price of "small" is unknown, so this budget cannot be kept'),
        (MODELS + "[shadow]\nmodel = 'small'\nmoney_per_day = 1", '7: the price of "small" is unknown, so this budget cannot be kept'),
        ("[upstreams.r]\nbase_url = 'http://r'\nformats = ['responses']\n[models]\nm = { upstream = 'r', id = 'x' }\n[tiers]\nverify = { model = 'm' }", '7: "m" cannot be asked: its upstream speaks neither chat nor messages'),
        ("[tiers]\nboundaries = [0, 0.5, 0.2]", "2: boundaries must not fall from one tier to the next"),
        ("[domains]\nfile = 'absent.toml'", "absent.toml does not exist"),
        ("[domains]\nfile = 'pointsman.toml'", "Expected `object`, got `str`"),
        ("[domains]\nprofiles = 'pointsman.toml'", "pointsman.toml is not a directory"),
        ("[tiers]\nprofile = 'seeds'", '2: no tier profile "seeds"; did you mean "seed"?'),
        ("[tiers]\nprofile = './absent.toml'", '2: no tier profile "./absent.toml"'),
        ("[tiers]\nprofile = 'pointsman.toml'", "2: "),
        ("[guidance]\nerror_window = 4", "2: [guidance] errors_in_window cannot exceed error_window"),
        ("[guidance]\nescalate = ['stop', 'stop']", "2: [guidance] escalate takes"),
        ("[server]\nhost = '0.0.0.0'", '2: "0.0.0.0" can be reached by others, and [server] has no keys'),
        ("[server]\nhost = 'gateway.internal'", '2: "gateway.internal" can be reached by others'),
        ("[sessions]\nstore = 'valkey'", '2: store "valkey" needs its address'),
        ("[sessions]\nstore = 'valkey'\nurl = 'redis://:pw@h'", "3: the address must not carry a password"),
        ("[ledger]\nurl = 'postgresql://u:pw@h/d'", "2: the address must not carry a password"),
        ("[ledger]\nurl = 'postgresql://h/d?password=pw'", "2: the address must not carry a password"),
        ("[ledger]\nurl = 'postgresql://u:p,w@h/d'", "2: the address must not carry a password"),
        ("[ledger]\nurl = 'postgresql://h:0/d'", "2: this is not a PostgreSQL URL"),
        ("[ledger]\nurl = 'mysql://h/d'", "2: this is not a PostgreSQL URL"),
        ("[ledger]\nurl = 'postgresql://u:canary/x@h/d'", "2: this is not a PostgreSQL URL"),
        ("[ledger]\nurl = 'postgresql://u@h:canary/d'", "2: this is not a PostgreSQL URL"),
        ("[sessions]\nstore = 'valkey'\nurl = 'redis://u:canary/@h'", '3: "redis://h" is no address of Valkey'),
        ("[sessions]\nstore = 'valkey'\nurl = 'u:canary'", '3: "…" is no address of Valkey'),
        ("[upstreams.a]\nbase_url = 'http://h:canary/v1'", '2: "http://h:…/v1" is not an http or https address'),
        ("[upstreams.a]\nbase_url = 'sk-canary'", '2: "…" is not an http or https address'),
        ("[ledger]\nurl = 'http://[::1'", "2: this is not a PostgreSQL URL"),
        ("[sessions]\nstore = 'valkey'\nurl = 'redis://[::1'", "3: "),
        ('[shadow]\npolicy = "\\u0000"', "2: this is no path: it holds a NUL"),
        ("[ledger]\npath = '~nobody-of-this-name/a'", "2: this is no path: "),
        (f"[ledger]\npath = '{'a' * 5_000}'", "2: this path is too long"),
        (BODY + ".".join(["a"] * 3_000) + " = 1", "5: Nested more than 64 levels deep"),
        (BODY + "a = " + "[" * 3_000 + "]" * 3_000, "5: Nested more than 64 levels deep"),
        (BODY + "a = " + "[\n" * 3_000 + "]" * 3_000, "Nested more than 64 levels deep"),
        (BODY + "a = " + "[" * 64 + "]" * 64, "5: Nested more than 64 levels deep"),
        ("[ledger]\nurl = 'postgresql://h/d'\njsonl = '-'", "3: [ledger] has url and jsonl"),
        ("[tiers\n", "1: Expected ']' at the end of a table declaration"),
        ("a = 1\nb =", "2: Invalid value"),
        ("a = 1\na = 2", "2: Cannot overwrite a value"),
    ],
)  # fmt: skip
def test_every_mistake_names_its_line_and_the_nearest_right_thing(
    tmp_path: Path, text: str, message: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load(file, ENV)
    assert str(refused.value).startswith(f"{file}:")
    assert message in str(refused.value)
    assert "canary" not in str(refused.value) + refused.value.hint


@pytest.mark.parametrize("hosts", ["h", "h:5432", "h1:5432,h2:5433", "[::1]:5432", "u@h1,h2", ""])
def test_a_ledger_may_have_several_hosts(tmp_path: Path, hosts: str) -> None:
    text = f"[ledger]\nurl = 'postgresql://{hosts}/d'"
    assert load(write(tmp_path, text), ENV).ledger.url == f"postgresql://{hosts}/d"


def test_a_proxys_credentials_are_read_and_never_shown(tmp_path: Path) -> None:
    text = "[upstreams.a]\nbase_url = 'https://a/v1'\nproxy = 'http://${MAIN_API_KEY}@proxy:3128'\n"
    loaded = examine(write(tmp_path, text), ENV)
    assert loaded.config is not None
    assert loaded.file is not None
    proxy = loaded.config.upstreams["a"].proxy
    assert proxy is not None
    assert proxy.reveal() == "http://canary-key@proxy:3128"
    shown = as_toml(plain(loaded.file))
    assert 'proxy = "http://${MAIN_API_KEY}@proxy:3128"' in shown
    assert "canary" not in f"{shown} {loaded!r}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[tiers]\nport = 3", "it belongs in [ext_proc] or [server]"),
        ("[tiers]\nmode = 'on'", "it belongs in [guidance] or [domains] or [capabilities]"),
        ("[tiers]\nserver.port = 3", "it is a table of its own: [server]"),
        (
            "[server]\nzzz = 3",
            (
                "known: host, port, keys, workers, limits, drain_notice, drain, keep_alive, passthrough, "
                "report_usage, router_command"
            ),
        ),
        ("[server]\nprot = 3", ""),  # the message names the nearest
    ],
)
def test_a_key_in_the_wrong_table_is_shown_its_own(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, text), ENV)
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "[server]\nhost = '::1'",
        "[server]\nhost = '127.0.0.2'",
        "[server]\nhost = 'localhost'",
        "[server]\nhost = '0.0.0.0'\nkeys = ['${POINTSMAN_KEY}', 'sha256:" + 64 * "0" + "']",
        "[upstreams.a]\nbase_url = 'http://127.0.0.1:11434/v1'",
        "[sessions]\nstore = 'valkey'\nurl = 'redis://h'\npassword = '${POINTSMAN_KEY}'",
        "[tiers]\nboundaries = [0, 0, 0.35]",
        "[upstreams.demo]\nbase_url = 'demo:'",
        "[guidance]\ncontrol = 1\nescalate = []",
        "[domains]\nprofiles = '.'",
        MODELS + "automatic = { upstream = 'main', id = 'x' }",
    ],
)
def test_near_misses_are_fine(tmp_path: Path, text: str) -> None:
    assert examine(write(tmp_path, text), ENV).errors == []


PROVIDERS = """
[upstreams.a]
base_url = "http://h/v1"
[models]
small = { upstream = "a", id = "small-1" }

[[guidance.providers]]
classifier = { name = "error_streak", threshold = 2 }
text = "Stop."

[[guidance.providers]]
text = "Go on."
classifier = { all = [
    "doom_loop",
    CLASSIFIER,
] }
"""


@pytest.mark.parametrize(
    ("classifier", "line", "message"),
    [
        ('"error_streek"', 15, 'unknown classifier "error_streek"; did you mean "error_streak"?'),
        ('{ name = "error_streak", threshold = "3" }', 15, 'must be a whole number of at least 1, not "3"'),
        ('{ name = "llm", model = "smal" }', 15, 'unknown model "smal"; did you mean "small"?'),
        ('{ entry_point = "nowhere:Class" }', 15, 'cannot import "nowhere"'),
        ('{ entry_point = "support.own_guidance:Unversioned" }', 15, "states no version"),
        ('{ entry_point = "support.own_guidance:Always", x = 1 }', 15, "refuses its parameters"),
    ],
)
def test_a_wrong_provider_is_told_at_its_line(
    tmp_path: Path, classifier: str, line: int, message: str
) -> None:
    file = write(tmp_path, PROVIDERS.replace("CLASSIFIER", classifier))
    [error] = examine(file, ENV).errors
    assert error.place == f"{file}:{line}"
    assert message in str(error)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('classifier = "doom_loop"\ntext = ""', "text"),
        ('classifier = "doom_loop"', "nothing to say"),
        ('clasifier = "doom_loop"\ntext = "a"', 'did you mean "classifier"?'),
        ('classifier = "doom_loop"\ntext = "a"\npoint = "pre_tool"', "pre_tool_selection"),
        ('provider = "diagnostic"', 'did you mean "diagnostic_signal"?'),
    ],
)
def test_a_provider_with_a_wrong_key_is_told(tmp_path: Path, table: str, message: str) -> None:
    file = write(tmp_path, f"[[guidance.providers]]\n{table}\n")
    [error] = examine(file, ENV).errors
    assert message in str(error)


def test_providers_are_shown_as_they_can_be_written(tmp_path: Path) -> None:
    file = write(tmp_path, PROVIDERS.replace("CLASSIFIER", '{ not = "large_output" }'))
    loaded = examine(file, ENV)
    assert loaded.file is not None
    again = examine(write(tmp_path, as_toml(plain(loaded.file))), ENV)
    assert again.errors == []
    assert again.config is not None
    assert loaded.config is not None
    assert again.config.guidance == loaded.config.guidance


def test_all_mistakes_are_told_in_order_of_lines(tmp_path: Path) -> None:
    file = write(tmp_path, "[guidance]\nmode = 1\ncontrol = 2\n[server]\nprot = 1\nhost = 2\n")
    places = [error.place for error in examine(file, ENV).errors]
    assert places == [f"{file}:{line}" for line in (2, 3, 5, 6)]


def test_a_missing_file_is_told_beside_other_mistakes_of_its_table(tmp_path: Path) -> None:
    text = '[tiers.learned_router]\nfile = "none.json"\nboundaries = [0.3, 0.2, 0.1]\n'
    errors = [str(error) for error in examine(write(tmp_path, text)).errors]
    assert ["none.json does not exist" in errors[0], "must not fall" in errors[1]] == [True, True]


def test_a_way_out_is_given_where_no_word_is_near(tmp_path: Path) -> None:
    [error] = examine(write(tmp_path, "[guidance]\nzzz = 1"), ENV).errors
    assert error.hint.startswith("known: mode, control, seed, escalate, ")
    [error] = examine(write(tmp_path, "[upstreams.a]\nformats = ['chat']"), ENV).errors
    assert error.hint == 'base_url = "…"'


def test_keys_have_the_names_of_their_callers(tmp_path: Path) -> None:
    config = read(
        tmp_path, f'[server]\nkeys = ["${{POINTSMAN_KEY}}"]\n[keys.ci]\nsha256 = "{hash_key("other").hex()}"'
    )
    server = config.server
    assert server.keys == (hash_key("canary-caller"), hash_key("other"))
    assert [server.caller(0), server.caller(1)] == [caller_name(hash_key("canary-caller")), "ci"]
    assert server.has_several_callers
    assert not ServerSpec(keys=(hash_key("a"), hash_key("b")), names=("ci", "ci")).has_several_callers


def test_callers_keys_are_kept_as_digests(tmp_path: Path) -> None:
    hashed = "sha256:" + hash_key("other").hex().upper()
    config = read(tmp_path, f'[server]\nkeys = ["${{POINTSMAN_KEY}}", "{hashed}"]')
    assert config.server.keys == (hash_key("canary-caller"), hash_key("other"))


def test_an_empty_variable_counts_as_missing(tmp_path: Path) -> None:
    file = write(tmp_path, "[upstreams.a]\nbase_url = 'http://a'\napi_key = '${EMPTY}'")
    [error] = examine(file, {"EMPTY": ""}).errors
    assert "EMPTY is not set" in str(error)
    assert error.hint == "export EMPTY=…"


@pytest.mark.parametrize("simple", ["'small'", "['small', 'large']", "{ model = 'small', max_tokens = 9 }"])
def test_the_first_model_of_tier_simple_verifies_unless_another_is_named(tmp_path: Path, simple: str) -> None:
    table = MODELS + "large = { upstream = 'main', id = 'large-1' }\n"
    found = read(tmp_path, f"{table}[tiers]\nsimple = {simple}\nverify = {{}}").tiers.verify
    assert found is not None
    assert found.model == "small"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, "[ledger]\npath = 'kept/ledger.sqlite'\n[sessions]\npath = '/var/s.sqlite'")
    assert config.ledger.path == tmp_path / "kept" / "ledger.sqlite"
    assert config.sessions.path == Path("/var/s.sqlite")


def test_a_profile_of_ones_own_is_found_beside_the_file(tmp_path: Path) -> None:
    own = resources.files("pointsman.tiers") / "profiles" / "seed.toml"
    (tmp_path / "own.toml").write_text(own.read_text("utf-8"), "utf-8")
    assert read(tmp_path, "[tiers]\nprofile = 'own.toml'").tiers.profile == str(tmp_path / "own.toml")
    (tmp_path / "own.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match=r"own\.toml: not UTF-8"):
        read(tmp_path, "[tiers]\nprofile = 'own.toml'")


def test_kinds_of_ones_own_are_found_beside_the_file(tmp_path: Path) -> None:
    """They were looked for in the working directory."""
    shipped = resources.files("pointsman.tiers") / "kinds.json"
    (tmp_path / "own.json").write_bytes(shipped.read_bytes())
    assert read(tmp_path, "[tiers]\nkinds = 'own.json'").tiers.kinds == str(tmp_path / "own.json")
    assert read(tmp_path, "[tiers]\nkinds = 'default'").tiers.kinds == "default"
    with pytest.raises(ConfigError, match=r'no kinds "other\.json"'):
        read(tmp_path, "[tiers]\nkinds = 'other.json'")


def test_a_body_may_be_nested(tmp_path: Path) -> None:
    read(tmp_path, BODY + "a = " + "[" * 50 + "]" * 50)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read") as refused:
        load(tmp_path / "absent.toml", ENV)
    assert refused.value.hint == "pointsman config init writes one"
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "latin.toml", ENV)


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    here, user = tmp_path / "here", tmp_path / "user"
    (user / "pointsman").mkdir(parents=True)
    here.mkdir()
    env = {"XDG_CONFIG_HOME": str(user)}
    assert find(here, env) is None
    theirs = write(user / "pointsman", "")
    assert find(here, env) == theirs
    ours = write(here, "")
    assert find(here, env) == ours
    assert find(here, env | {"POINTSMAN_CONFIG": "/else.toml"}) == Path("/else.toml")


def test_checks_across_keys_are_made_beside_mistakes_of_single_keys(tmp_path: Path) -> None:
    """All that can be found is told at once, and nothing that follows from a mistake told already."""
    text = """[upstreams.main]
base_url = "http://localhost:1/v1"
prot = 1
[upstreams.gone]
base_url = "${NO_SUCH}"
[models.small]
upstream = "main"
input_per_million = "cheap"
[models.other]
upstream = "gone"
[models.lost]
upstream = "mian"
[tiers]
simple = "smal"
medium = "other"
[agreement.a]
cheap = ["small", "other"]
[shadow]
modle = "small"
[shadow.x]
[guidance]
mode = "sometimes"
[ledger]
url = "mysql://h/d"
[server]
host = "0.0.0.0"
"""
    errors = examine(write(tmp_path, text)).errors
    found = {int(str(error.place).rpartition(":")[2]): error for error in errors}
    assert list(found) == [3, 5, 6, 8, 9, 11, 14, 19, 20, 22, 24, 26]
    assert "unknown model" in str(found[14])
    assert not found[14].hint  # the names that are left are not all there are
    assert "not a PostgreSQL URL" in str(found[24])
    assert "can be reached by others" in str(found[26])
