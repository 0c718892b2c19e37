"""The command line that resumes a session. A search shows it, and loads nothing that runs it."""

from __future__ import annotations

import os
import shlex

from sessiontree.cli.options import program_word, store_words
from sessiontree.profiles import DEFAULT_PROFILE, Profile
from sessiontree.scope import Scope


def resume_command(session_id: str, cwd: str, scope: Scope, profile: Profile | None = None) -> str:
    """The command line that resumes a session, in its project's folder if that exists."""
    from sessiontree.discovery.paths import same_cwd

    is_here = same_cwd(cwd, scope.cwd) or not os.path.isdir(cwd)
    command = resume_words(session_id, scope, profile or scope.profile, is_here=is_here)
    return command if is_here else f"cd {shlex.quote(cwd)} && {command}"


def resume_words(value: str, scope: Scope, profile: Profile, *, is_here: bool = True) -> str:
    """The words of that command, for a session that is named by ``value``."""
    words = [program_word(is_here=is_here)]
    if profile.name != os.environ.get("SESSIONTREE_PROFILE", DEFAULT_PROFILE):
        words += ["--profile", profile.name]
    words += store_words(scope)
    if scope.session_dir is not None:
        words += ["--session-dir", scope.session_dir]
    return shlex.join([*words, "--resume", value])
