"""The examples of the README run, in their order, as a reader would type them."""

import pathlib
import re

import numpy as np

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_the_examples_of_the_readme_run_and_the_agents_learn():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert np.all(names["returns"] > -1.7)


def test_the_first_example_has_ten_lines():
    first = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 11
