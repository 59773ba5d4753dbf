"""What several views make of a profile, made once."""

from collections.abc import Callable
from functools import wraps
from weakref import WeakKeyDictionary

from pyhybrid.profile_file.profile import Profile


def cached_by_profile[Made](make: Callable[[Profile], Made]) -> Callable[[Profile], Made]:
    """The function, which keeps what it made for as long as the profile lives."""
    made: WeakKeyDictionary[Profile, Made] = WeakKeyDictionary()

    @wraps(make)
    def of(profile: Profile) -> Made:
        if profile not in made:
            made[profile] = make(profile)
        return made[profile]

    return of
