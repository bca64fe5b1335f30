"""The tests that every state store and event handler has to pass. They need pytest.

Subclass a class in a test module and say how an instance is made::

    class TestHeapStateStore(AutoScalerStateStoreContract):
        def make_store(self) -> AutoScalerStateStore:
            return HeapStateStore()
"""
