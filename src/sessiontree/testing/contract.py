"""``StorageContract``: what every storage must do, as tests that pytest can run against one.

Owns the rules of ``sessiontree.storage.base`` that a session relies on; the two storages of this
package and any other run the same tests. Needs no import of pytest itself.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:
    # Before they are imported: else a broken rule is an AssertionError without the two values.
    sys.modules["pytest"].register_assert_rewrite(
        "sessiontree.testing.file_contract",
        "sessiontree.testing.writer_contract",
        "sessiontree.testing.store_contract",
        "sessiontree.testing.store_faults",
    )

from sessiontree.testing.file_contract import FileContract
from sessiontree.testing.writer_contract import WriterContract


class StorageContract(FileContract, WriterContract):
    """Subclass it in a test module and give it two fixtures.

    ``storage`` is a fresh storage; ``root`` is the path of a folder that nothing else uses (it
    need not exist)::

        class TestMyStorage(StorageContract):
            @pytest.fixture
            def storage(self): return MyStorage(...)

            @pytest.fixture
            def root(self): return "/contract"
    """
