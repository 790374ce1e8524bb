"""Office documents that are written by hand, part by part, as other programs than the usual libraries write them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
NAMESPACES = " ".join(
    f'xmlns:{prefix}="{address}"'
    for prefix, address in {
        "w": WORD,
        "r": f"{OFFICE}/relationships",
        "m": f"{OFFICE}/math",
        "p": SLIDES,
        "a": DRAWING,
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "v": "urn:schemas-microsoft-com:vml",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
    }.items()
)


def zip_parts(parts: Mapping[str, str]) -> bytes:
    """Return parts as an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in parts.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def relations(**targets: str) -> str:
    """Return the relations of a part by their ids, each as `kind target`; addresses are external."""
    lines = []
    for identifier, value in targets.items():
        kind, target = value.split(" ")
        mode = ' TargetMode="External"' if ":" in target else ""
        lines.append(f'<Relationship Id="{identifier}" Type="{OFFICE}/relationships/{kind}" Target="{target}"{mode}/>')
    namespace = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{namespace}">{"".join(lines)}</Relationships>'


def word_document(body: str, links: Mapping[str, str] | None = None, **parts: str) -> bytes:
    """Return a Word document with a body, further relations, and further parts by their names (`styles`)."""
    targets = {**{f"part{name}": f"{name} {name}.xml" for name in parts}, **(links or {})}
    files = {
        "_rels/.rels": relations(rId1="officeDocument word/document.xml"),
        "word/document.xml": f"<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(**targets),
    }
    for name, content in parts.items():
        files[f"word/{name}.xml"] = f"<w:{name} {NAMESPACES}>{content}</w:{name}>"
    return zip_parts(files)


def paragraph(text: str, properties: str = "") -> str:
    """Return a paragraph of Word with one run."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{run(text)}</w:p>"


def run(text: str, properties: str = "") -> str:
    """Return a run of Word."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def presentation(*slides: str, attributes: tuple[str, ...] = (), **parts: str) -> bytes:
    """Return a presentation of slides, each the content of its tree of shapes.

    `attributes` are those of the slides; `parts` are those that every slide refers to, by the kind of the relation.
    """
    count = len(slides)
    entries = "".join(f'<p:sldId id="{256 + number}" r:id="rId{number}"/>' for number in range(1, count + 1))
    files = {
        "_rels/.rels": relations(rId1="officeDocument ppt/presentation.xml"),
        "ppt/presentation.xml": f"<p:presentation {NAMESPACES}><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            **{f"rId{number}": f"slide slides/slide{number}.xml" for number in range(1, count + 1)}
        ),
    }
    for number, slide in enumerate(slides, 1):
        extra = attributes[number - 1] if attributes else ""
        tree = f"<p:cSld><p:spTree>{slide}</p:spTree></p:cSld>"
        files[f"ppt/slides/slide{number}.xml"] = f"<p:sld {NAMESPACES} {extra}>{tree}</p:sld>"
        files[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations(
            **{kind: f"{kind} ../{kind}.xml" for kind in parts}
        )
    for kind, content in parts.items():
        files[f"ppt/{kind}.xml"] = content
    return zip_parts(files)


def shape(*texts: str, placeholder: str = "", properties: str = "") -> str:
    """Return a shape of PowerPoint with paragraphs."""
    mark = f'<p:ph type="{placeholder}"/>' if placeholder else ""
    body = "".join(f"<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
    head = f'<p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/><p:nvPr>{mark}</p:nvPr></p:nvSpPr>'
    return f"<p:sp>{head}<p:spPr/><p:txBody>{body}</p:txBody></p:sp>"
