"""The class of modules."""


class Module:
    def _wrapped_call_impl(self, *args):
        return self.forward(*args)

    __call__ = _wrapped_call_impl
