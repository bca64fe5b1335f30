"""Common parts of commands: options, exit codes, display of errors, and their place on the command line."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

import typer

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.standalone.cli.output import print_error, write_error
from flink_autoscaler.standalone.extras import missing_library

if TYPE_CHECKING:
    from flink_autoscaler.standalone.settings.loading import SettingsLoader
    from flink_autoscaler.standalone.settings.schema.settings import Settings
    from flink_autoscaler.stores.sql.database.database import Database

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_INTERRUPTED: Final = 130

TIME: Final = "an age such as '7 d', or 2026-01-31T12:00"
_DATE: Final = re.compile(r"\d{4}-", re.ASCII)
_AGE: Final = re.compile(r"(?:\d++(?:\.\d++)?+\s*+[a-zA-Zµ]++\s*+)++", re.ASCII)


def valued(names: str, metavar: str, text: str, **more: Any) -> Any:
    """Return an option with a value; its names are separated by blanks."""
    return typer.Option(*names.split(), metavar=metavar, help=text, **more)


def switch(name: str, text: str) -> Any:
    """Return an option without a value."""
    return typer.Option(*name.split(), help=text)


def argument(metavar: str, text: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


SetOption = Annotated[list[str] | None, valued("--set", "KEY=VALUE", "Set one option; may be repeated.")]
DryRunOption = Annotated[bool, switch("--dry-run", "Decide and report, but change nothing.")]
JsonOption = Annotated[bool, switch("--json", "Print JSON instead of a table.")]
ClusterOption = Annotated[str | None, valued("--cluster", "NAME", "Only this cluster.")]
ClustersOption = Annotated[list[str] | None, valued("--cluster", "NAME", "Only this cluster; may be repeated.")]
UrlOption = Annotated[
    str | None,
    valued(
        "--url",
        "URL",
        "Daemon to ask, such as http://127.0.0.1:8484, instead of its database; "
        "FLINK_AUTOSCALER_TOKEN holds its token.",
    ),
]
HistoryPathOption = Annotated[
    str | None, valued("--path", "PATH", "Folder or URL of the history; default: the configured one.")
]


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The options that say where the settings come from."""

    config: Annotated[Path | None, valued("--config -c", "FILE", "Configuration file (YAML).")] = None
    overrides: SetOption = None

    def loader(self, *, is_dry_run: bool = False) -> SettingsLoader:
        """Return what reads the settings."""
        from flink_autoscaler.standalone.settings.loading import SettingsLoader

        return SettingsLoader(self.config, self.overrides or [], is_dry_run=is_dry_run)

    def prepare(self, *, is_dry_run: bool = False) -> Settings:
        """Read the settings and set up the log.

        Raises:
            ConfigError: Something is wrong; one line per problem.
        """
        return self.loader(is_dry_run=is_dry_run).read(sets_log=True)

    def prepare_stored(self) -> Settings:
        """Do the same, with the database that a daemon of this user has where the settings name none."""
        return self.loader().read_stored()

    def database(self, *, query_timeout: float = 30.0) -> closing[Database]:
        """Open the database of the settings; the arguments and errors are those of ``open_database``."""
        from flink_autoscaler.standalone.ha.databases import open_database

        return closing(open_database(self.prepare_stored(), query_timeout=query_timeout))


@dataclass(frozen=True, slots=True)
class GivenUrls:
    """Clusters by their URLs, and how they are reached. Secrets are never given themselves, only where they are."""

    url: Annotated[
        list[str] | None, valued("--url", "URL", "JobManager, such as http://jobmanager:8081; may be repeated.")
    ] = None
    ca_file: Annotated[Path | None, valued("--ca-file", "FILE", "Certificates to trust (PEM).")] = None
    certificate_file: Annotated[Path | None, valued("--certificate-file", "FILE", "Certificate to show (PEM).")] = None
    key_file: Annotated[Path | None, valued("--key-file", "FILE", "Key of that certificate (PEM).")] = None
    user: Annotated[str | None, valued("--user", "NAME", "User of basic authentication.")] = None
    password_env: Annotated[
        str | None, valued("--password-env", "NAME", "Environment variable with the user's password.")
    ] = None
    password_file: Annotated[Path | None, valued("--password-file", "FILE", "File with the user's password.")] = None
    token_env: Annotated[str | None, valued("--token-env", "NAME", "Environment variable with a bearer token.")] = None
    token_file: Annotated[Path | None, valued("--token-file", "FILE", "File with a bearer token.")] = None

    def access(self) -> dict[str, str]:
        """Return how the clusters are reached, by option of a cluster entry; files by their absolute paths."""
        texts = {
            "tls.ca-file": self.ca_file,
            "tls.certificate-file": self.certificate_file,
            "tls.key-file": self.key_file,
            "auth.username": self.user,
            "auth.password-env-variable": self.password_env,
            "auth.password-file": self.password_file,
            "auth.token-env-variable": self.token_env,
            "auth.token-file": self.token_file,
        }
        given = {key: str(each.absolute() if isinstance(each, Path) else each) for key, each in texts.items() if each}
        kinds = {"auth.username": "basic", "auth.password": "basic", "auth.token": "bearer"}
        kind = next((kind for start, kind in kinds.items() if any(key.startswith(start) for key in given)), None)
        return given if kind is None else {"auth.kind": kind, **given}


@dataclass(frozen=True, slots=True)
class HistorySelection:
    """The options that say which part of which history is meant; None is the configured one, or all."""

    path: HistoryPathOption = None
    since: Annotated[str | None, valued("--since", "TIME", f"Only rows since: {TIME}.")] = None
    until: Annotated[str | None, valued("--until", "TIME", f"Only rows before: {TIME}.")] = None
    clusters: ClustersOption = None


Work = TypeVar("Work", bound=Callable[..., int])

_DEBUG: Final = inspect.Parameter(
    "debug",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, switch("--debug", "Show a traceback with an error.")],
)


def command(
    app: typer.Typer, *examples: str, codes: str = "", name: str | None = None, short_help: str | None = None
) -> Callable[[Work], Work]:
    """Add a command with the option ``--debug`` to an app.

    Args:
        app: Where to add it.
        examples: Shown below the help.
        codes: What its exit codes mean, unless that goes without saying.
        name: Unless it is that of the function.
        short_help: For the list of commands; unset takes the first sentence of the docstring, which is the help.

    Returns:
        A decorator of the function that does the work and returns the exit code. Its parameters are the options; one
        that is a dataclass stands for the options that are its fields. The function imports what it needs itself, so
        that ``--help`` and mistyped options do not wait for it.
    """

    def add(work: Work) -> Work:
        def run(*, debug: bool, **given: Any) -> None:
            _run_to_exit(lambda: _called(work, given), is_debug=debug)

        cast("Any", run).__signature__ = inspect.Signature([*_options_of(work), _DEBUG])
        app.command(name, short_help=short_help, epilog=_epilog(examples, codes))(update_wrapper(run, work))
        return work

    return add


def _options_of(work: Callable[..., object]) -> Iterator[inspect.Parameter]:
    """Yield the options of a function, or of a dataclass of options, in the order of the help."""
    for parameter in inspect.signature(work, eval_str=True).parameters.values():
        if _is_group(parameter):
            yield from _options_of(parameter.annotation)
        else:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _is_group(parameter: inspect.Parameter) -> bool:
    return is_dataclass(parameter.annotation)


def _called(work: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function, or make a dataclass, with its options of those given."""
    parameters = inspect.signature(work, eval_str=True).parameters.items()
    return work(
        **{
            name: _called(parameter.annotation, given) if _is_group(parameter) else given[name]
            for name, parameter in parameters
        }
    )


def _epilog(examples: Iterable[str], codes: str) -> str:
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in examples) + (codes and f"\nExit code: {codes}")


def command_group(*examples: str, text: str, short_help: str) -> typer.Typer:
    """Return an app for commands that have a word in common, with its help."""
    group = typer.Typer(
        help=text,
        short_help=short_help,
        epilog=_epilog(examples, ""),
        invoke_without_command=True,
        rich_markup_mode=None,
    )
    group.callback()(require_command)
    return group


def require_command(context: typer.Context) -> None:
    """Show the help to those who have named no command, and end with the exit code of a mistake."""
    if context.invoked_subcommand is None:
        write_error(f"{context.get_help()}\n")
        raise typer.Exit(EXIT_CONFIG)


def _run_to_exit(work: Callable[[], int], *, is_debug: bool) -> None:
    """Do the work and end with its exit code; an error is lines on standard error and an exit code."""
    try:
        code = work()
    except typer.BadParameter:
        raise
    except BrokenPipeError:
        # The reader of a pipe has seen enough; the interpreter must not complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    except Exception as error:
        if is_debug:
            write_error(traceback.format_exc())
        missing = missing_library(error) if isinstance(error, ModuleNotFoundError) else None
        for line in (missing or str(error) or type(error).__name__).splitlines():
            print_error(line)
        is_mistake = missing or isinstance(error, ConfigError) or _is_set_up_wrongly(error)
        code = EXIT_CONFIG if is_mistake else EXIT_FAILED
    raise typer.Exit(code)


def _is_set_up_wrongly(error: Exception) -> bool:
    """Tell whether a database cannot be used as it is configured, such as a file that cannot be opened."""
    if not isinstance(error, StoreError):
        return False
    from flink_autoscaler.stores.sql.database.failures import is_lasting

    return is_lasting(error)


def read_instant(text: str, now: float, option: str = "--at") -> int:
    """Return the epoch milliseconds that ``10m ago`` or ``2026-01-31T12:00`` means.

    Args:
        text: A duration, or a date with or without time and zone; without a zone it is local.
        now: Epoch seconds.
        option: Which the message names.

    Raises:
        ConfigError: It is neither.
    """
    stripped = text.strip()
    age = _AGE.fullmatch(stripped.removesuffix("ago"))
    try:
        if age is not None:
            return round((now - syntax.parse_time(age[0]).exact_seconds) * 1000)
        if _DATE.match(stripped):
            return round(datetime.fromisoformat(stripped).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        pass
    raise ConfigError(f"{option} '{text}': expected an age such as '24h', or a date and time such as 2026-01-31T12:00")


def read_seconds(option: str, text: str, example: str) -> float:
    """Return the seconds that a duration given for an option means.

    Raises:
        ConfigError: It is no duration; the message shows the example.
    """
    try:
        return syntax.parse_time(text).exact_seconds
    except ValueError as error:
        raise ConfigError(f"{option} '{text}': expected a duration such as '{example}'") from error
