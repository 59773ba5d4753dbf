"""Rust's symbols: readable in full, and shortened as C++ names are.

Symbols are what rustc made of a library; mutations of them, and of anything, do no harm.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyhybrid._symbolize import demangle
from pyhybrid.views.labels import bare, shorten_native

# symbol, its readable form, and that shortened
KNOWN = [
    ("_ZN4core9panicking5panic17h0123456789abcdefE", "core::panicking::panic", None),
    (
        "_ZN52_$LT$k..Example$LT$T$C$_$GT$$u20$as$u20$k..Shape$GT$4name17h46b6f4edcc844444E",
        "<k::Example<T,_> as k::Shape>::name",
        "<k::Example as k::Shape>::name",
    ),
    (
        "_ZN4core3ptr62drop_in_place$LT$alloc..boxed..Box$LT$dyn$u20$k..Shape$GT$$GT$"
        "17h4ec495e78df0371aE",
        "core::ptr::drop_in_place<alloc::boxed::Box<dyn k::Shape>>",
        "core::ptr::drop_in_place",
    ),
    (
        "_ZN4core3ptr50drop_in_place$LT$fn$LP$u8$RP$$u20$.$GT$$u20$u8$GT$17h4ec495e78df0371aE",
        "core::ptr::drop_in_place<fn(u8) .> u8>",
        "core::ptr::drop_in_place",
    ),
    (
        "_ZN4core3str21_$LT$impl$u20$str$GT$4trim17h4ec495e78df0371aE",
        "core::str::<impl str>::trim",
        None,
    ),
    ("_ZN1k9g$uf6$del4bach17h14833d3ddc42b95bE", "k::gödel::bach", None),
    ("_RNvNtCsatdfoCJcp2e_1ku8gdel_5qa4bach", "k::gödel::bach", None),
    ("_RINvCsatdfoCJcp2e_1k7genericTsEEB2_", "k::generic::<(i16,)>", "k::generic"),
    ("_RINvCsatdfoCJcp2e_1k8constantKb1_Kc78_Kan3_EB2_", "k::constant::<true, 'x', -3>",
     "k::constant"),
    (
        "_RINvCsatdfoCJcp2e_1k7genericPDINtNtNtCsgEmfK2I1SDS_4core3ops8function2FnThEEp6Output"
        "bEL_EB2_",
        "k::generic::<*const dyn core::ops::function::Fn<(u8,), Output = bool>>",
        "k::generic",
    ),
    (
        "_RINvCsatdfoCJcp2e_1k7genericFG0_RL1_hQL0_tExEB2_",
        "k::generic::<for<'a, 'b> fn(&'a u8, &'b mut u16) -> i64>",
        "k::generic",
    ),
    ("_RNvMs_CsatdfoCJcp2e_1kINtB4_7ExamplemKj2_E4pushB4_", "<k::Example<u32, 2>>::push",
     "k::Example::push"),
    ("_RNvMNtC4core5sliceSh3lenC1k", "<[u8]>::len", "<[u8]>::len"),
    (
        "_RNvXs4_NtNtNtNtCsjrHSEGnQ3l9_3std3sys2io11kernel_copy5linuxRNtNtBd_2fs4FileNtB5_8Cop"
        "yRead10properties",
        "<&std::fs::File as std::sys::io::kernel_copy::linux::CopyRead>::properties",
        None,
    ),
    (
        "_RNSNvYNCINvNtNtCsjrHSEGnQ3l9_3std6thread9lifecycle15spawn_uncheckedNCNvCsatdfoCJcp2e"
        "_1k5entrys0_0jEs_0INtNtNtCsgEmfK2I1SDS_4core3ops8function6FnOnceuE9call_once6vtableB1"
        "7_",
        "<std::thread::lifecycle::spawn_unchecked<k::entry::{closure#2}, usize>::{closure#1} "
        "as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
        "<std::thread::lifecycle::spawn_unchecked::{closure#1} "
        "as core::ops::function::FnOnce>::call_once::{shim:vtable#0}",
    ),
    (
        "_RINvNtNtNtNtCsgEmfK2I1SDS_4core5slice4sort6stable5drift4sortjNCINvMNtCslNYArtu3iFV_5"
        "alloc5sliceSj11sort_by_keyjNCNvCsatdfoCJcp2e_1k5entrys_0E0EB1P_",
        "core::slice::sort::stable::drift::sort::<usize, "
        "<[usize]>::sort_by_key<usize, k::entry::{closure#1}>::{closure#0}>",
        "core::slice::sort::stable::drift::sort",
    ),
    ("_RNvCsatdfoCJcp2e_1k1f.llvm.3296095928621922473", "k::f", None),
]  # fmt: skip


@pytest.mark.parametrize(("symbol", "readable", "short"), KNOWN)
def test_known_symbols(symbol: str, readable: str, short: str | None) -> None:
    assert demangle(symbol) == readable
    assert shorten_native(readable) == (short or readable)


@pytest.mark.parametrize(
    ("readable", "short"),
    [
        ("a::f::<<b::C<u8> as d::E>::g::{closure#0}, fn(u8) -> <[u8] as h::I>::J>", "a::f"),
        ("<<a::B<u8>>::c::D as e::F<g::H>>::i", "<a::B::c::D as e::F>::i"),
        ("<fn(u8) .> u8 as a::B<u8>>::c", "<fn(u8) -> u8 as a::B>::c"),
        ("<dyn for<'a> Fn<(&'a u8,)> + Send>::f", "<dyn Fn + Send>::f"),
    ],
)
def test_short_rust_names(readable: str, short: str) -> None:
    assert shorten_native(readable) == short


def test_cxx_symbols_that_look_like_legacy_ones_are_cxx() -> None:
    assert demangle("_ZN4core17h0123456789abcdefEv") == "core::h0123456789abcdef()"
    assert demangle("_ZN4core4fmt1E") == "core::fmt1"


EDITS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from("_0159ABCDEFGIKLMNOPQRSTXYabchjlnpstuvz$.{<")),
    max_size=6,
)


@given(st.sampled_from(KNOWN), EDITS, st.integers(0, 400))
def test_mutations_do_no_harm(
    known: tuple[str, str, str], edits: list[tuple[int, str]], cut: int
) -> None:
    symbol = list(known[0])
    for at, letter in edits:
        symbol[at % len(symbol)] = letter
    mutated = "".join(symbol)[: cut + 2]
    readable = demangle(mutated)
    assert readable
    assert shorten_native(readable)


@given(st.text(alphabet="_0123456789BCFGIKLMNRTXYahu", max_size=60))
@example("RNvB_B_")
@example("C0")
def test_anything_is_given_back_or_readable(text: str) -> None:
    assert demangle("_R" + text)
    assert demangle("_ZN" + text + "17h0123456789abcdefE")


@given(st.text(alphabet="<>(){}:-. asTfn&*,", max_size=40))
def test_anything_can_be_shortened(name: str) -> None:
    short = shorten_native(name)
    assert len(short) <= len(name) + 2 * name.count("(")
    assert bool(short) == bool(name)


def test_labels_without_places() -> None:
    assert bare("step (train.py:12)") == "step"
    assert bare("[import torch] (5,171 functions: --imports)") == "[import torch]"
    assert bare("[unwind gap]") == "[unwind gap]"
