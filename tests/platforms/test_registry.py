from __future__ import annotations

import pytest

from pliant.core.errors import NotFound
from pliant.platforms.kubernetes import KubernetesPlatform
from pliant.platforms.local import LocalPlatform
from pliant.platforms.registry import make_platform, platform_names, platform_traits
from pliant.platforms.traits import PlatformTraits


def test_built_in_platforms_are_found_by_name() -> None:
    assert isinstance(make_platform("local"), LocalPlatform)
    assert isinstance(make_platform("kubernetes"), KubernetesPlatform)
    assert {"local", "kubernetes"} <= set(platform_names())


def test_an_unknown_platform_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="unknown platform 'slurm'") as caught:
        make_platform("slurm")
    assert "kubernetes, local" in caught.value.hint


def test_traits_tell_what_the_master_must_know() -> None:
    assert platform_traits("local") == PlatformTraits(is_single_machine=True, can_resize=True)
    assert platform_traits("kubernetes") == PlatformTraits(
        restarts_master=True, builds_node_environment=True, encrypts_by_default=True
    )
