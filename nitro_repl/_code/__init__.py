"""What a piece of user code reaches, its digest, and what changed between two.

By content, never by identity, file name, line or time; in doubt, different or unsound.
"""

from .arrays import light_look as light_look
from .diff import explain as explain
from .fingerprint import (
    Fingerprint as Fingerprint,
    Hashed as Hashed,
    LargeArray as LargeArray,
    Opaque as Opaque,
    Part as Part,
    Reason as Reason,
    fingerprint as fingerprint,
    register as register,
)
from .origin import (
    is_user_class as is_user_class,
    is_user_file as is_user_file,
    is_user_module as is_user_module,
    place as place,
)
from .recorder import Recorder as Recorder
