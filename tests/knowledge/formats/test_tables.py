"""Rows of values: names of columns, titles, several tables, and how values are divided in a text."""

from __future__ import annotations

import pytest

from knowledge.formats.tables import read_csv

WEB = "name: web\nport: 80"


def read(text: str) -> str:
    """Return a table as text, without the blanks that keep its lines apart."""
    return read_csv(text).replace("  \n", "\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,port\nweb,80\n", WEB),
        ("name;port\nweb;80\n", WEB),
        ("name\tport\nweb\t80\n", WEB),
        ("name|port\r\nweb|80\r\n", WEB),
        ("name,port\rweb,80\r", WEB),
        ('"name","port"\n"web","80"\n', WEB),
        ("name;price\nweb;1,50\ndb;2,50\n", "name: web\nprice: 1,50\n\nname: db\nprice: 2,50"),
        ('name;note\nweb;"two\nlines; one value"\n', "name: web\nnote: two lines; one value"),
        ('name,note\nweb,"say ""hi"""\n', 'name: web\nnote: say "hi"'),
        ("Ports of March, revised\n\nname;port\nweb;80\n", f"Ports of March, revised\n\n{WEB}"),
        ("# made by a script\nname;port\nweb;80\n", f"\\# made by a script\n\n{WEB}"),
        ("name,port\nweb,80\n\ndb,5432\n", f"{WEB}\n\nname: db\nport: 5432"),
        ("name,port\nweb,80\n\nteam,lead,size\nnet,Ann,5\n", f"{WEB}\n\nteam: net\nlead: Ann\nsize: 5"),
        ("name,port\nweb,80\n\nTeams\nteam,lead\nnet,Ann\n", f"{WEB}\n\nTeams\n\nteam: net\nlead: Ann"),
        ("region,2023,2024\nnorth,1,2\n", "region: north\n2023: 1\n2024: 2"),
        ("Host,alpha\nPort,8443\nOwner,net\n", "Host: alpha\n\nPort: 8443\n\nOwner: net"),
        ("web,80\ndb,5432\n", "web: 80\n\ndb: 5432"),
        ("name,port,,team,lead\nweb,80,,net,Ann\ndb,22,,core,Bob\n",
         f"{WEB}\n\nname: db\nport: 22\n\nteam: net\nlead: Ann\n\nteam: core\nlead: Bob"),
        ("name,port\nweb,80,extra\n", f"{WEB}\ncolumn 3: extra"),
        ("name,,port\nweb,x,80\n", "name: web\ncolumn 2: x\nport: 80"),
        ("name,port\n", "name, port"),
        ("alpha\nbeta\n", "alpha\n\nbeta"),
        ("name,mark\nx,# not a heading\ny,<b>\n", "name: x\nmark: # not a heading\n\nname: y\nmark: \\<b>"),
        ("", ""),
    ],
)  # fmt: skip
def test_rows_are_read_with_the_names_of_their_columns(text: str, expected: str) -> None:
    assert read(text) == expected


def test_a_quotation_mark_that_is_never_closed_costs_no_rows() -> None:
    rows = "\n".join(f"host{number};{number}" for number in range(500))
    text = read(f'name;port\n"open;1\n{rows}\n')
    assert "name: host499\nport: 499" in text


def test_a_long_value_costs_no_others() -> None:
    text = read(f"name,note\nweb,{'x' * 200_000}\ndb,short\n")
    assert text.endswith("name: db\nnote: short")
