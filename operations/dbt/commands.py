"""Commands of dbt: dbt."""

from typing import Annotated

import typer

from config.settings import load_settings

app = typer.Typer()


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def dbt(
    arguments: Annotated[list[str], typer.Argument(metavar="ARGS...", help="What dbt is to do, as dbt takes it.")],
) -> None:
    """Run dbt with the project's profiles and Spark settings; its exit code is passed on.

    `lakehouse dbt env` prints the variables by which a plain dbt finds all of it: source <(lakehouse dbt env)

    Example: lakehouse dbt build
    """
    from operations.dbt.run import exports, run

    settings = load_settings()
    if arguments == ["env"]:
        typer.echo(exports(settings), nl=False)
        return
    raise typer.Exit(run(settings, arguments))
