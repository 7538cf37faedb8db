"""Commands of dbt: dbt."""

from typing import Annotated

import typer

from config.settings import ROOT, load_settings

app = typer.Typer()


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def dbt(
    arguments: Annotated[list[str], typer.Argument(metavar="ARGS...", help="Arguments of dbt, or `env`, or `sync`.")],
) -> None:
    """Run dbt with the project's profiles and Spark settings; its exit code is passed on.

    `lakehouse dbt env` prints the variables by which a plain dbt finds the project: source <(lakehouse dbt env)
    `lakehouse dbt sync` writes the serving models and the sources that follow from config/tables.

    Example: lakehouse dbt build
    """
    if arguments == ["sync"]:
        from operations.dbt.sync import sync

        changed = sync()
        for file in changed:
            typer.echo(f"  {file.relative_to(ROOT)}{'' if file.exists() else '   (removed)'}")
        typer.echo(f"{len(changed)} files changed." if changed else "Every file is up to date.")
        return
    from operations.dbt.run import exports, run

    settings = load_settings()
    if arguments == ["env"]:
        typer.echo(exports(settings), nl=False)
        return
    raise typer.Exit(run(settings, arguments))
