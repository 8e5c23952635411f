"""`llmprism completion SHELL`: a script that completes commands, sub-commands and options in a shell.

The script is made from the commands themselves and holds simple lists of words: completing starts no Python. What takes
a file is left to the shell's own completion of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

__all__ = ["Words", "completion", "script_for", "words_of"]


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True, slots=True)
class Words:
    """What may follow the words of `path` (empty for `llmprism` itself): commands and options, with their summaries."""

    path: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print a script that completes llmprism's commands and options in a shell.

    \b
    Examples:
      llmprism completion bash > ~/.local/share/bash-completion/completions/llmprism
      llmprism completion fish > ~/.config/fish/completions/llmprism.fish
      eval "$(llmprism completion zsh)"
    """
    from llmprism.cli.app import command_line

    typer.echo(script_for(shell.value, list(words_of(command_line()))))


def words_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[Words]:
    """The words of a command and of all below it."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    below = [(name, command.get_command(None, name)) for name in names]
    options = [
        (option, _summary(getattr(parameter, "help", "")))
        for parameter in command.params
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
        for option in parameter.opts
        if option.startswith("--")
    ]
    commands = tuple((name, _summary(one.get_short_help_str(80))) for name, one in below)
    yield Words(path, commands, (*options, ("--help", "Show the help and exit.")))
    for name, one in below:
        yield from words_of(one, (*path, name))


def _summary(text: str | None) -> str:
    return " ".join((text or "").replace("'", "").split())


def script_for(shell: str, words: list[Words]) -> str:
    """The script for bash, zsh or fish."""
    if shell == Shell.FISH:
        return "\n".join(_fish_lines(words))
    cases = "\n".join(
        f"    '{' '.join(one.path)}') words='{' '.join(name for name, _ in (*one.commands, *one.options))}' ;;"
        for one in words
    )
    known = " ".join(f"'{' '.join(one.path)}'" for one in words if one.path)
    before = "autoload -U +X bashcompinit && bashcompinit\n" if shell == Shell.ZSH else ""
    return before + _BASH.format(known=known, cases=cases)


_BASH = """_llmprism() {{
  local path='' words='' word known
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    for known in {known}; do
      [ "${{path:+$path }}$word" = "$known" ] && path="$known" && break
    done
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _llmprism llmprism"""


def _fish_lines(words: list[Words]) -> Iterator[str]:
    for one in words:
        if one.path:
            condition = " && ".join(f"__fish_seen_subcommand_from {word}" for word in one.path)
        else:
            condition = "__fish_use_subcommand"
        for name, summary in one.commands:
            unless = f" && not __fish_seen_subcommand_from {' '.join(n for n, _ in one.commands)}" if one.path else ""
            yield f"complete -c llmprism -n '{condition}{unless}' -a {name} -d '{summary}'"
        for name, summary in one.options:
            yield f"complete -c llmprism -n '{condition}' -l {name.removeprefix('--')} -d '{summary}'"
