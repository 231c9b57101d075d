"""Tables of the benchmarks: as pages show them, and in the sections that are theirs."""

import pytest
from bench import tables

PAGE = "# Speed\n\nBefore.\n\n<!-- one -->\n\nold\n\n<!-- end of one -->\n\nAfter.\n"


def test_a_table_goes_into_its_section_and_leaves_the_rest_of_the_page(tmp_path):
    page = tmp_path / "speed.md"
    page.write_text(PAGE + PAGE.replace("one", "two"), encoding="utf-8")
    for _ in range(2):  # the second time over the first
        tables.put("one", tables.markdown([{"p": 2, "µs": 1.23456}]), page)
    expected = PAGE.replace("old", "| p | µs |\n| --- | --- |\n| 2 | 1.23 |")
    assert page.read_text("utf-8") == expected + PAGE.replace("one", "two")


@pytest.mark.parametrize("text", ["", "<!-- one -->\n", "<!-- end of one -->\n<!-- one -->\n"])
def test_a_page_without_the_section_is_left_as_it_is(tmp_path, text):
    page = tmp_path / "speed.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"speed\.md has no section 'one'"):
        tables.put("one", "new", page)
    assert page.read_text("utf-8") == text


def test_the_machine_is_named_with_what_its_numbers_depend_on():
    assert "cores, numpy" in tables.machine()
