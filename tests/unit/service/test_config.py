import pytest

from llmprism.errors import ConfigError
from llmprism.service.config import Config, load_config, parse_config
from llmprism.service.config_text import as_toml


def test_the_defaults_are_valid_and_round_trip():
    assert parse_config(as_toml(Config()), {}, "defaults") == Config()


def test_a_full_file_round_trips():
    text = """
    [server]
    port = 9000
    allowed_hosts = ["monitor"]
    [[directory]]
    path = "/flows"
    after = "delete"
    [[token]]
    name = "t"
    sha256 = "%s"
    scopes = ["read", "ingest"]
    """ % ("ab" * 32)
    config = parse_config(text, {}, "file")
    assert config.server.port == 9000
    assert config.directory[0].after == "delete"
    assert parse_config(as_toml(config), {}, "again") == config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nprot = 1", "did you mean 'port'"),
        ("[sever]\nport = 1", "did you mean 'server'"),
        ("[server]\nport = 'x'", "server.port: expected a whole number"),
        ("[server]\nport = true", "expected a whole number"),
        ("[server]\nport = 70000", "0 to 65535"),
        ("[windows]\nhop_s = 0", "windows.hop_s"),
        ("[[directory]]\nmap = 'a=b'", "path is missing"),
        ("[[token]]\nname = 'x'\nsha256 = 'zz'", "64 hexadecimal"),
        ("[server]\nhost = '0.0.0.0'", "reachable from elsewhere"),
        ("[alerts]\nwebhook = ['ftp://x']", "http or https"),
        ("server = 3", "expected a table"),
        ("x = ", "not TOML"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        parse_config(text, {}, "file")


def test_a_public_bind_needs_a_token_or_a_proxy():
    token = '[[token]]\nname = "t"\nsha256 = "%s"\n' % ("0" * 64)
    assert parse_config("[server]\nhost = '0.0.0.0'\n" + token, {}, "file").public()
    assert parse_config("[server]\nhost = '::'\ntrusted_proxy = true", {}, "file").public()


def test_the_environment_overrides():
    environment = {"LLMPRISM_SERVER__PORT": "9", "LLMPRISM_ALERTS__WEBHOOK": "http://a,http://b", "HOME": "/x"}
    config = parse_config("[server]\nport = 8", environment, "file")
    assert config.server.port == 9
    assert config.alerts.webhook == ("http://a", "http://b")
    with pytest.raises(ConfigError, match="LLMPRISM_SERVER__PROT"):
        parse_config("", {"LLMPRISM_SERVER__PROT": "1"}, "file")
    with pytest.raises(ConfigError, match="true or false"):
        parse_config("", {"LLMPRISM_HTTP__ENABLED": "maybe"}, "file")


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml", {})


def test_text_of_a_configuration_may_be_added_to_and_keeps_any_name() -> None:
    config = parse_config(as_toml(Config()) + '\n[[directory]]\npath = "/flows/\U0001f525"\n', {}, "added")
    assert parse_config(as_toml(config), {}, "again") == config
