"""Show jobs on a web page: progress, nodes, data, decisions, events and logs, live.

    pliant dashboard
    pliant dashboard digits
    pliant dashboard -N team-a
    pliant dashboard --allow-control
    pliant dashboard --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem

Prints a link that signs one browser in; after its use another link is printed. Without --allow-control, nothing can be
changed on the page. From another machine: `ssh -L 8470:localhost:8470 HOST`, and open the link there.

Exit code: 0 after SIGTERM or Ctrl-C; 2 for a usage error, or if the job is not found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import Context, Folder, Namespace, cluster_of
from pliant.cli.render.terminal import say


def dashboard(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this job, by name or directory. [default: all]")
    ] = None,
    job_dir: Folder = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; other than loopback needs TLS.")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; 0: any free one. [default: 8470, or a free one]"),
    ] = None,
    allow_control: Annotated[bool, typer.Option("--allow-control", help="Let the page scale and stop jobs.")] = False,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, where there is one.")
    ] = True,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key (PEM).")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Host name that browsers may use for this server; repeatable."
        ),
    ] = None,
    link_file: Annotated[
        Path | None, typer.Option("--link-file", help="Also write the link to this file (mode 0600).")
    ] = None,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from pliant.cli.launch.dashboard import job_source, leave_at_once, log_to_terminal
    from pliant.dashboard.serving import ServeOptions, serve

    source, only_job = job_source(name, job_dir, cluster_of(namespace, context, job_dir))
    options = ServeOptions(
        host=host,
        port=port,
        allow_control=allow_control,
        open_browser=open_browser,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allowed_hosts=tuple(allow_host or ()),
        only_job=only_job,
        link_file=link_file,
        until_stdin_closes=until_stdin_closes,
    )
    log_to_terminal()
    serve(source, options, say)
    leave_at_once()
