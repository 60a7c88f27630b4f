# ruff: noqa: E501 (a pair of sources reads best side by side)
"""Pairs of sources: does the second mean the same as the first, seen from `root`?"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from nitro_repl._code import Fingerprint, fingerprint


class Pair(NamedTuple):
    name: str
    before: str
    after: str


def run(source: str, filename: str = "<cell 1>", **names: object) -> dict:
    """Run a source in a fresh namespace."""
    namespace: dict = {"__name__": "user_cell", **names}
    code = compile(textwrap.dedent(source), filename, "exec", dont_inherit=True)
    exec(code, namespace)
    return namespace


def of(source: str, filename: str = "<cell 1>") -> Fingerprint:
    """The fingerprint of `root` in a source."""
    return fingerprint(run(source, filename)["root"])


EQUAL = [
    Pair("a comment and blank lines", "def root(x):\n  return x * 2", "\n\ndef root(x):\n\n  # two\n  return x * 2  # x"),
    Pair("a docstring", "def root(x):\n  return x", 'def root(x):\n  "Doc."\n  return x'),
    Pair("another docstring", 'def root(x):\n  "A."\n  return x', 'def root(x):\n  "B."\n  return x'),
    Pair("a docstring where None is used", "def root(x, w=None):\n  return x if w is None else None", 'def root(x, w=None):\n  "Doc."\n  return x if w is None else None'),
    Pair("a docstring that is also a constant", 'def root(x):\n  return "A."', 'def root(x):\n  "A."\n  return "A."'),
    Pair("a docstring in a nested function", "def root(x):\n  def f(y): return y\n  return f(x)", 'def root(x):\n  def f(y):\n    "Doc."\n    return y\n  return f(x)'),
    Pair("a docstring in a nested class", "def root(x):\n  class A:\n    k = 1\n  return A.k", 'def root(x):\n\n\n  class A:\n    "Doc."\n    k = 1\n  return A.k'),
    Pair("a reformat", "def root(x): return max(x, 1, 2)", "def root(\n    x,\n):\n    return max(\n        x,\n        1,\n        2,\n    )"),
    Pair("annotations", "def root(x, *, k=1):\n  y = x\n  return y", "def root(x: int, *, k: float = 1) -> int:\n  y: int = x\n  return y"),
    Pair("annotations of a nested function", "def root(x):\n  z = 1\n  def f(y, k=2, *, j=3): return y + z\n  return f(x)", "def root(x):\n  z = 1\n  def f(y: 'int | None', k: dict[str, int | float] = 2, *, j: x.y = 3) -> float: return y + z\n  return f(x)"),
    Pair("future annotations of a nested function", "def root(x):\n  def f(y): return y\n  return f(x)", "from __future__ import annotations\ndef root(x):\n  def f(y: int) -> float: return y\n  return f(x)"),
    Pair("future annotations", "def root(x): return x", "from __future__ import annotations\ndef root(x): return x"),
    Pair("a renamed local", "def root(x):\n  a = x\n  b = a\n  return a + b", "def root(x):\n  z = x\n  q = z\n  return z + q"),
    Pair("a renamed captured local", "def root(x):\n  b = x; a = 2\n  def f(y): return y * a + b\n  return f(b)", "def root(x):\n  a = x; z = 2\n  def f(y): return y * z + a\n  return f(a)"),
    Pair("a renamed local, captured twice deep", "def root(x):\n  a = x\n  c = 1\n  def f():\n    def g(): return c, a\n    return g\n  return f()()", "def root(x):\n  z = x\n  b = 1\n  def f():\n    def g(): return b, z\n    return g\n  return f()()"),
    Pair("a renamed comprehension variable", "def root(x): return [i for i in x]", "def root(x): return [j for j in x]"),
    Pair("a renamed exception variable", "def root(x):\n  try:\n    return x()\n  except ValueError as e:\n    return str(e)", "def root(x):\n  try:\n    return x()\n  except ValueError as err:\n    return str(err)"),
    Pair("folded constants", "def root(x): return x * 4", "def root(x): return x * (2 + 2)"),
    Pair("a pass", "def root(x):\n  if x:\n    pass\n  return x", "def root(x):\n\n  if x: pass\n  return x"),
    Pair("unrelated names", "def root(x): return x", "import math\nEPS = 3\ndef other(): return EPS\ndef root(x): return x"),
    Pair("definition order", "def a(x): return x\ndef b(x): return x + 1\ndef root(x): return a(b(x))", "def b(x): return x + 1\ndef root(x): return a(b(x))\ndef a(x): return x"),
    Pair("method order", "class A:\n  def f(self): return 1\n  def g(self): return 2\ndef root(x): return A()", "class A:\n  def g(self): return 2\n  def f(self): return 1\ndef root(x): return A()"),
    Pair("a class docstring", "class A:\n  k = 1\ndef root(x): return A", 'class A:\n  "Doc."\n  k = 1\ndef root(x): return A'),
    Pair("an unread attribute of a module", "import types\nm = types.ModuleType('m')\nm.a = 1\nm.b = 2\ndef root(x): return m.a", "import types\nm = types.ModuleType('m')\nm.a = 1\nm.b = 3\ndef root(x): return m.a"),
    Pair("an unread class attribute", "class A:\n  k = 1\n  j = 1\ndef root(x): return A.k", "class A:\n  k = 1\n  j = 2\ndef root(x): return A.k"),
    Pair("set order", "S = {'a', 'b', 'c', (1, 2)}\ndef root(x): return x in S", "S = {(1, 2), 'c', 'b', 'a'}\ndef root(x): return x in S"),
    Pair("set order of functions", "def a(): return 1\ndef b(): return 2\nS = {a, b}\ndef root(x): return S", "def b(): return 2\ndef a(): return 1\nS = {b, a}\ndef root(x): return S"),
    Pair("a copy of equal content", "A = [[1]]\nB = A\ndef root(x): return A, B", "A = [[1]]\nB = [[1]]\ndef root(x): return A, B"),
    Pair("a helper defined again", "def h(x): return x\nREG = {'h': h}\ndef root(x): return REG['h'](h(x))", "def h(x): return x\nREG = {'h': h}\ndef h(x): return x\ndef root(x): return REG['h'](h(x))"),
    Pair("a recursive helper", "def h(x): return h(x - 1)\ndef root(x): return h(x)", "def h(x): return h(x - 1)\n\n\ndef root(x): return h(x)"),
    Pair("wraps again", "import functools\ndef d(f):\n  @functools.wraps(f)\n  def w(x): return f(x) * 2\n  return w\n@d\ndef root(x): return x", "import functools\n\ndef d(f):\n  'Doc.'\n  @functools.wraps(f)\n  def w(x): return f(x) * 2\n  return w\n@d\ndef root(x):\n  'Doc.'\n  return x"),
    Pair("a cached property", "import functools\nclass A:\n  @functools.cached_property\n  def p(self): return 1\na = A()\ndef root(x): return a.p", "import functools\nclass A:\n\n  @functools.cached_property\n  def p(self): return 1\na = A()\ndef root(x): return a.p"),
    Pair("a cache that filled", "import functools\n@functools.lru_cache\ndef h(x): return x\ndef root(x): return h(x)", "import functools\n@functools.lru_cache\ndef h(x): return x\nh(3)\ndef root(x): return h(x)"),
    Pair("a dispatch that was used", "import functools\n@functools.singledispatch\ndef h(x): return x\ndef root(x): return h(x)", "import functools\n@functools.singledispatch\ndef h(x): return x\nh(3); h('a')\ndef root(x): return h(x)"),
]  # fmt: skip

SAME_TWICE = {
    "class": "class A:\n  k = 1\n  def f(self): return super().__init__()\nroot = A",
    "enum": "import enum\nclass Mode(enum.Enum):\n  A = 1\n  B = 2\n  @property\n  def x(self): return self.value\nroot = Mode",
    "int enum": "import enum\nclass Mode(enum.IntFlag):\n  A = 1\n  B = 2\nroot = Mode.A | Mode.B",
    "string enum": "import enum\nclass Mode(str, enum.Enum):\n  A = 'a'\nroot = Mode.A",
    "enum of lists": "import enum\nclass Mode(enum.Enum):\n  A = [1]\nroot = Mode.A",
    "dataclass": "import dataclasses as d\n@d.dataclass(frozen=True)\nclass C:\n  a: int\n  b: list = d.field(default_factory=list)\n  c: float = 2.0\nroot = C(1)",
    "slots dataclass": "import dataclasses as d\n@d.dataclass(slots=True, order=True)\nclass C:\n  a: int = 3\nroot = C(1)",
    "named tuple": "from typing import NamedTuple\nclass P(NamedTuple):\n  a: int\n  b: float = 1.0\nroot = P(1)",
    "old named tuple": "import collections\nP = collections.namedtuple('P', 'a b', defaults=[1])\nroot = P(1)",
    "abstract class": "import abc\nclass A(abc.ABC):\n  @abc.abstractmethod\n  def f(self): ...\nclass B(A):\n  def f(self): return 1\nisinstance(B(), A)\nroot = B()",
    "generic class": "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass A(Generic[T]):\n  def f(self, x: T) -> T: return x\nA[int]\nroot = A[int]()",
    "protocol": "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n  def f(self): ...\nclass A(P):\n  def f(self): return 1\nisinstance(A(), P)\nroot = A()",
    "metaclass": "class M(type):\n  def __call__(cls): return super().__call__()\nclass A(metaclass=M): pass\nroot = A()",
    "slots": "class A:\n  __slots__ = ('a', 'b')\n  def __init__(self): self.a = 1\nroot = A()",
    "made dataclass": "import dataclasses\nroot = dataclasses.make_dataclass('C', [('a', int, 3)])()",
    "class made in a function": "def make(k):\n  class A:\n    def f(self): return k\n  return A\nroot = make(3)()",
    "partial method": "import functools\nclass A:\n  def f(self, k): return k\n  g = functools.partialmethod(f, 3)\nroot = A().g",
    "dispatch method": "import functools\nclass A:\n  @functools.singledispatchmethod\n  def f(self, k): return k\n  @f.register\n  def _(self, k: int): return 2\nA().f(3)\nroot = A()",
    "context manager": "import contextlib\n@contextlib.contextmanager\ndef cm(): yield 1\ndef root(x):\n  with cm() as y: return y",
    "exception": "class E(Exception):\n  pass\ne = E(1, 2)\ndef root(x):\n  try: return x\n  except E: raise e",
    "frozenset constant": "def root(x): return x in {'a', 'b', 'c', 'd', 1, 2.0, None}",
    "match statement": "def root(x):\n  match x:\n    case [a, b] if a: return b\n    case {'k': v}: return v\n    case int(n) | float(n): return n\n    case _: return None",
    "generators": "async def a(x):\n  async with x as y:\n    return [z async for z in y]\ndef root(x):\n  yield from x\n  return a",
    "user containers": "class L(list): pass\nclass D(dict): pass\nclass S(str): pass\nclass I(int): pass\na = L([1, [2]]); a.k = 3\nroot = (a, D(a=1), S('x'), I(3))",
    "self reference": "a = [1]; a.append(a)\nd = {'a': a}; d['d'] = d\nroot = d",
    "set of itself": "def f(): return S\nS = {f}\nroot = f",
    "objects": "import pathlib, re, array, collections, fractions, decimal, datetime, operator, types\nroot = [pathlib.Path('a'), re.compile('a', re.I), array.array('f', [1]), collections.Counter('aab'), collections.deque([1], 3), collections.defaultdict(list, a=1), fractions.Fraction(1, 3), decimal.Decimal('1.0'), datetime.timedelta(3), operator.itemgetter(1), types.SimpleNamespace(a=1), range(3), slice(1, 2), bytearray(b'a'), memoryview(b'a'), types.MappingProxyType({'a': 1}), 1 << 20000, float('nan')]",
}  # fmt: skip

DIFFERENT = [
    Pair("a number", "def root(x): return x * 2.0", "def root(x): return x * 3.0"),
    Pair("an int and a float", "def root(x): return x * 1", "def root(x): return x * 1.0"),
    Pair("a bool and an int", "def root(x): return True", "def root(x): return 1"),
    Pair("signed zeros", "def root(x): return 0.0", "def root(x): return -0.0"),
    Pair("signed zeros in a tuple", "def root(x): return (1, 0.0)", "def root(x): return (1, -0.0)"),
    Pair("an operator", "def root(x): return x + 2", "def root(x): return x - 2"),
    Pair("a comparison", "def root(x): return x < 2", "def root(x): return x <= 2"),
    Pair("an argument's name", "def root(x): return x", "def root(y): return y"),
    Pair("which local is used", "def root(x):\n  a = x; b = 1\n  return a", "def root(x):\n  a = x; b = 1\n  return b"),
    Pair("which local is captured", "def root(x):\n  a = x; b = 1\n  def f(): return a\n  return f", "def root(x):\n  a = x; b = 1\n  def f(): return b\n  return f"),
    Pair("captured locals swapped", "def root(x):\n  a = x; b = 1\n  def f(): return a - b\n  return f", "def root(x):\n  a = x; b = 1\n  def f(): return b - a\n  return f"),
    Pair("a keyword's name", "def root(x): return dict(a=x)", "def root(x): return dict(b=x)"),
    Pair("what is caught", "def root(x):\n  try: return x()\n  except ValueError: return 1", "def root(x):\n  try: return x()\n  except KeyError: return 1"),
    Pair("how much is tried", "def root(x):\n  try:\n    a = x()\n    b = x()\n  except ValueError: return 1\n  return a", "def root(x):\n  a = x()\n  try:\n    b = x()\n  except ValueError: return 1\n  return a"),
    Pair("a jump", "def root(x):\n  while x:\n    if x > 3: break\n    x += 1\n  return x", "def root(x):\n  while x:\n    if x > 3: continue\n    x += 1\n  return x"),
    Pair("the name of a function", "def f(): return 1\nroot = f", "def g(): return 1\nroot = g"),
    Pair("a global number", "G = 2.0\ndef root(x): return x * G", "G = 3.0\ndef root(x): return x * G"),
    Pair("a global defined later", "def root(x): return G", "G = 3.0\ndef root(x): return G"),
    Pair("a helper three down", "def a(x): return x * 2\ndef b(x): return a(x)\ndef c(x): return b(x)\ndef root(x): return c(x)", "def a(x): return x * 3\ndef b(x): return a(x)\ndef c(x): return b(x)\ndef root(x): return c(x)"),
    Pair("a global in a nested function", "G = 2.0\ndef root(x):\n  def body(c): return [c * G for _ in x]\n  return body", "G = 3.0\ndef root(x):\n  def body(c): return [c * G for _ in x]\n  return body"),
    Pair("a default", "def h(x, k=2): return k\ndef root(x): return h(x)", "def h(x, k=3): return k\ndef root(x): return h(x)"),
    Pair("a keyword default", "def h(x, *, k=2): return k\ndef root(x): return h(x)", "def h(x, *, k=3): return k\ndef root(x): return h(x)"),
    Pair("a captured value", "def make(k):\n  def f(x): return k * x\n  return f\nroot = make(2)", "def make(k):\n  def f(x): return k * x\n  return f\nroot = make(3)"),
    Pair("an empty cell", "def make():\n  def f(x): return k\n  k = 1\n  return f\nroot = make()", "def make():\n  def f(x): return k\n  return f\n  k = 1\nroot = make()"),
    Pair("a function attribute", "def h(x): return h.k\nh.k = 1\ndef root(x): return h(x)", "def h(x): return h.k\nh.k = 2\ndef root(x): return h(x)"),
    Pair("a decorator's constant", "import functools\ndef deco(k):\n  def wrap(f):\n    @functools.wraps(f)\n    def inner(x): return k * f(x)\n    return inner\n  return wrap\n@deco(2)\ndef root(x): return x", "import functools\ndef deco(k):\n  def wrap(f):\n    @functools.wraps(f)\n    def inner(x): return k * f(x)\n    return inner\n  return wrap\n@deco(3)\ndef root(x): return x"),
    Pair("a decorated body", "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def inner(x): return f(x)\n  return inner\n@deco\ndef root(x): return x", "import functools\ndef deco(f):\n  @functools.wraps(f)\n  def inner(x): return f(x)\n  return inner\n@deco\ndef root(x): return 2 * x"),
    Pair("a partial", "import functools\ndef h(x, k): return k\nroot = functools.partial(h, k=2)", "import functools\ndef h(x, k): return k\nroot = functools.partial(h, k=3)"),
    Pair("a partial's argument", "import functools\ndef h(x, k): return k\nroot = functools.partial(h, 2)", "import functools\ndef h(x, k): return k\nroot = functools.partial(h, 3)"),
    Pair("a registry", "R = {}\ndef reg(f):\n  R[f.__name__] = f\n  return f\n@reg\ndef gain(x): return 2 * x\ndef root(x): return R['gain'](x)", "R = {}\ndef reg(f):\n  R[f.__name__] = f\n  return f\n@reg\ndef gain(x): return 3 * x\ndef root(x): return R['gain'](x)"),
    Pair("dict order", "D = {'a': 1, 'b': 2}\ndef root(x): return list(D)", "D = {'b': 2, 'a': 1}\ndef root(x): return list(D)"),
    Pair("a list item", "L = [1, [2]]\ndef root(x): return L", "L = [1, [3]]\ndef root(x): return L"),
    Pair("a tuple and a list", "L = (1, 2)\ndef root(x): return L", "L = [1, 2]\ndef root(x): return L"),
    Pair("a set item", "S = {1, 2}\ndef root(x): return S", "S = {1, 3}\ndef root(x): return S"),
    Pair("a function in a set", "def a(): return 1\nS = {a}\ndef root(x): return S", "def a(): return 2\nS = {a}\ndef root(x): return S"),
    Pair("which of two is where", "def a(x): return 1\ndef b(x): return 2\nL = [a, b]\ndef root(x): return L", "def a(x): return 1\ndef b(x): return 2\nL = [b, a]\ndef root(x): return L"),
    Pair("an instance attribute", "class A: pass\na = A(); a.k = 1\ndef root(x): return a.k", "class A: pass\na = A(); a.k = 2\ndef root(x): return a.k"),
    Pair("a slot", "class A:\n  __slots__ = 'k'\na = A(); a.k = 1\ndef root(x): return a.k", "class A:\n  __slots__ = 'k'\na = A(); a.k = 2\ndef root(x): return a.k"),
    Pair("a method of an instance", "class A:\n  def f(self): return 1\na = A()\ndef root(x): return a.f()", "class A:\n  def f(self): return 2\na = A()\ndef root(x): return a.f()"),
    Pair("a bound method's instance", "class A:\n  def f(self): return self.k\na = A(); a.k = 1\nroot = a.f", "class A:\n  def f(self): return self.k\na = A(); a.k = 2\nroot = a.f"),
    Pair("a class attribute", "class A:\n  k = 1\ndef root(x): return A.k", "class A:\n  k = 2\ndef root(x): return A.k"),
    Pair("an inherited class attribute", "class B:\n  k = 1\nclass A(B): pass\ndef root(x): return A.k", "class B:\n  k = 2\nclass A(B): pass\ndef root(x): return A.k"),
    Pair("a method called on the class", "class A:\n  def f(x): return 1\ndef root(x): return A.f(x)", "class A:\n  def f(x): return 2\ndef root(x): return A.f(x)"),
    Pair("a class method", "class A:\n  k = 1\n  @classmethod\n  def f(cls): return cls.k\ndef root(x): return A.f()", "class A:\n  k = 2\n  @classmethod\n  def f(cls): return cls.k\ndef root(x): return A.f()"),
    Pair("a static method", "class A:\n  @staticmethod\n  def f(): return 1\ndef root(x): return A.f()", "class A:\n  @staticmethod\n  def f(): return 2\ndef root(x): return A.f()"),
    Pair("a property", "class A:\n  @property\n  def p(self): return 1\na = A()\ndef root(x): return a.p", "class A:\n  @property\n  def p(self): return 2\na = A()\ndef root(x): return a.p"),
    Pair("a base class method", "class B:\n  def f(self): return 1\nclass A(B):\n  def f(self): return super().f()\na = A()\ndef root(x): return a.f()", "class B:\n  def f(self): return 2\nclass A(B):\n  def f(self): return super().f()\na = A()\ndef root(x): return a.f()"),
    Pair("the order of bases", "class B: pass\nclass C: pass\nclass A(B, C): pass\ndef root(x): return A()", "class B: pass\nclass C: pass\nclass A(C, B): pass\ndef root(x): return A()"),
    Pair("a metaclass", "class M(type):\n  k = 1\nclass A(metaclass=M): pass\ndef root(x): return A", "class M(type):\n  k = 2\nclass A(metaclass=M): pass\ndef root(x): return A"),
    Pair("what a decorator may read of annotations", "import functools\ndef root(x):\n  @x\n  def f(y: int): return y\n  return f(x)", "import functools\ndef root(x):\n  @x\n  def f(y: float): return y\n  return f(x)"),
    Pair("a property of a metaclass", "class M(type):\n  @property\n  def k(cls): return 1\nclass A(metaclass=M): k = 0\ndef root(x): return A.k", "class M(type):\n  @property\n  def k(cls): return 2\nclass A(metaclass=M): k = 0\ndef root(x): return A.k"),
    Pair("a descriptor", "class D:\n  def __init__(self, k): self.k = k\n  def __get__(self, o, t): return self.k\nclass A:\n  d = D(1)\ndef root(x): return A.d", "class D:\n  def __init__(self, k): self.k = k\n  def __get__(self, o, t): return self.k\nclass A:\n  d = D(2)\ndef root(x): return A.d"),
    Pair("a default of a nested function", "def root(x):\n  def f(y: int, k: int = 1): return k\n  return f(x)", "def root(x):\n  def f(y: int, k: int = 2): return k\n  return f(x)"),
    Pair("a format", "def root(x): return f'{x!r}'", "def root(x): return f'{x!s}'"),
    Pair("a membership test", "def root(x): return x in (1,)", "def root(x): return x not in (1,)"),
    Pair("a starred call", "def root(x): return max(*x)", "def root(x): return max(x)"),
    Pair("a keyword's place", "def root(x): return dict(a=1, b=x)", "def root(x): return dict(b=1, a=x)"),
    Pair("an enum's value", "import enum\nclass M(enum.Enum):\n  A = 1\ndef root(x): return M.A.value", "import enum\nclass M(enum.Enum):\n  A = 2\ndef root(x): return M.A.value"),
    Pair("an enum's other member", "import enum\nclass M(enum.Enum):\n  A = 1\ndef root(x): return M.A", "import enum\nclass M(enum.Enum):\n  A = 1\n  B = 2\ndef root(x): return M.A"),
    Pair("a dataclass default", "import dataclasses as d\n@d.dataclass\nclass C:\n  a: int = 1\ndef root(x): return C().a", "import dataclasses as d\n@d.dataclass\nclass C:\n  a: int = 2\ndef root(x): return C().a"),
    Pair("a dataclass field order", "import dataclasses as d\n@d.dataclass\nclass C:\n  a: int = 1\n  b: int = 1\ndef root(x): return C(*x)", "import dataclasses as d\n@d.dataclass\nclass C:\n  b: int = 1\n  a: int = 1\ndef root(x): return C(*x)"),
    Pair("a made dataclass's default", "import dataclasses\nC = dataclasses.make_dataclass('C', [('a', int, 3)])\ndef root(x): return C().a", "import dataclasses\nC = dataclasses.make_dataclass('C', [('a', int, 4)])\ndef root(x): return C().a"),
    Pair("a named tuple's default", "import collections\nP = collections.namedtuple('P', 'a', defaults=[1])\ndef root(x): return P()", "import collections\nP = collections.namedtuple('P', 'a', defaults=[2])\ndef root(x): return P()"),
    Pair("a module attribute", "import types\nm = types.ModuleType('m')\nm.a = 1\ndef root(x): return m.a", "import types\nm = types.ModuleType('m')\nm.a = 2\ndef root(x): return m.a"),
    Pair("a module as a value", "import types\nm = types.ModuleType('m')\nm.a = 1\ndef root(x): return getattr(m, x)", "import types\nm = types.ModuleType('m')\nm.a = 2\ndef root(x): return getattr(m, x)"),
    Pair("a captured module", "import types\nm = types.ModuleType('m')\nm.a = 1\ndef make(m):\n  def f(x): return m.a\n  return f\nroot = make(m)", "import types\nm = types.ModuleType('m')\nm.a = 2\ndef make(m):\n  def f(x): return m.a\n  return f\nroot = make(m)"),
    Pair("an import in a function", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 1\ndef root(x):\n  import nitro_test_m as q\n  return q.a", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 2\ndef root(x):\n  import nitro_test_m as q\n  return q.a"),
    Pair("a from import in a function", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 1\ndef root(x):\n  from nitro_test_m import a\n  return lambda: a", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 2\ndef root(x):\n  from nitro_test_m import a\n  return lambda: a"),
    Pair("an import used by a nested function", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 1\ndef root(x):\n  import nitro_test_m\n  return lambda: nitro_test_m.a", "import sys, types\nm = sys.modules['nitro_test_m'] = types.ModuleType('nitro_test_m')\nm.a = 2\ndef root(x):\n  import nitro_test_m\n  return lambda: nitro_test_m.a"),
    Pair("a shadowed builtin", "def root(x): return abs(x)", "def abs(x): return x\ndef root(x): return abs(x)"),
    Pair("a registered implementation", "import functools\n@functools.singledispatch\ndef h(x): return x\n@h.register\ndef _(x: int): return 1\ndef root(x): return h(x)", "import functools\n@functools.singledispatch\ndef h(x): return x\n@h.register\ndef _(x: int): return 2\ndef root(x): return h(x)"),
    Pair("a cached function", "import functools\n@functools.lru_cache\ndef h(x): return 1\ndef root(x): return h(x)", "import functools\n@functools.lru_cache\ndef h(x): return 2\ndef root(x): return h(x)"),
    Pair("a context manager", "import contextlib\n@contextlib.contextmanager\ndef cm(): yield 1\ndef root(x):\n  with cm() as y: return y", "import contextlib\n@contextlib.contextmanager\ndef cm(): yield 2\ndef root(x):\n  with cm() as y: return y"),
    Pair("a weak reference", "import weakref\nclass A: pass\na = A(); a.k = 1\nw = weakref.ref(a)\ndef root(x): return w().k", "import weakref\nclass A: pass\na = A(); a.k = 2\nw = weakref.ref(a)\ndef root(x): return w().k"),
    Pair("which bare object", "A, B = object(), object()\nM = A\ndef root(x): return M is A, B", "A, B = object(), object()\nM = B\ndef root(x): return M is A, B"),
    Pair("which empty instance", "class T: pass\nA, B = T(), T()\nM = A\ndef root(x): return {A: 1, B: 2}[M]", "class T: pass\nA, B = T(), T()\nM = B\ndef root(x): return {A: 1, B: 2}[M]"),
    Pair("a class registered as another's", "import abc\nclass A(abc.ABC): pass\nclass B: pass\nb = B()\ndef root(x): return isinstance(b, A)", "import abc\nclass A(abc.ABC): pass\nclass B: pass\nA.register(B)\nb = B()\ndef root(x): return isinstance(b, A)"),
    Pair("the level of a logger", "import logging\nL = logging.Logger('a', 10)\ndef root(x): return L.level", "import logging\nL = logging.Logger('a', 30)\ndef root(x): return L.level"),
    Pair("the bound of a type variable", "import typing\nT = typing.TypeVar('T', bound=int)\ndef root(x): return T.__bound__", "import typing\nT = typing.TypeVar('T', bound=str)\ndef root(x): return T.__bound__"),
    Pair("a new type", "import typing\nT = typing.NewType('T', int)\ndef root(x): return T.__supertype__", "import typing\nT = typing.NewType('T', str)\ndef root(x): return T.__supertype__"),
    Pair("a range", "R = range(3)\ndef root(x): return R", "R = range(4)\ndef root(x): return R"),
    Pair("a path", "import pathlib\nP = pathlib.PurePosixPath('a')\ndef root(x): return P", "import pathlib\nP = pathlib.PurePosixPath('b')\ndef root(x): return P"),
    Pair("a pattern", "import re\nP = re.compile('a')\ndef root(x): return P", "import re\nP = re.compile('a', re.I)\ndef root(x): return P"),
    Pair("an array", "import numpy as np\nA = np.array([1.0, 2.0])\ndef root(x): return A", "import numpy as np\nA = np.array([1.0, 3.0])\ndef root(x): return A"),
    Pair("an array's dtype", "import numpy as np\nA = np.zeros(2, 'i4')\ndef root(x): return A", "import numpy as np\nA = np.zeros(2, 'f4')\ndef root(x): return A"),
    Pair("an array's shape", "import numpy as np\nA = np.zeros((2, 3))\ndef root(x): return A", "import numpy as np\nA = np.zeros((3, 2))\ndef root(x): return A"),
    Pair("an array of objects", "import numpy as np\nA = np.array([1, 'a'], object)\ndef root(x): return A", "import numpy as np\nA = np.array([1, 'b'], object)\ndef root(x): return A"),
    Pair("a container subclass", "class L(list):\n  def f(self): return 1\na = L([1])\ndef root(x): return a", "class L(list):\n  def f(self): return 2\na = L([1])\ndef root(x): return a"),
    Pair("a container subclass's content", "class D(dict): pass\na = D(k=1)\ndef root(x): return a", "class D(dict): pass\na = D(k=2)\ndef root(x): return a"),
]  # fmt: skip
