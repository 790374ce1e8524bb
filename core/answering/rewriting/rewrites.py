"""The built-in rewrite strategies (KIMAs 3.2); docs/answering.md describes each of them.

Each takes the queries of one retrieval agent and returns others. The light model writes them; where there is none, and
where its reply makes no sense or comes too late, a rule takes its place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from core.answering.context import MAX_PASSAGE_CHARS, Query, Rewrite, RewriteContext
from core.answering.rewriting.base import (
    ask_llm,
    fence_query,
    find_synonyms,
    has_same_script,
    is_valid_rewrite,
    join_terms,
    replace_synonyms,
    rewrite_all,
    rule,
    rule_based_rewrite,
    shares_terms,
)
from core.answering.rewriting.query_reply import QUERY_SCHEMA
from core.evidence.rendering import escape_delimiters
from core.language.glossary import is_foreign_to
from core.language.keywords import content_words, extract_noun_phrases, strip_fillers
from core.language.languages import detect_language, extract_names, is_in_language
from core.language.tokens import CJK_CHARACTERS
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.types import Passage

RETRIEVAL_STAGE = "rewrite_retrieval"
MAX_FEEDBACK_PASSAGES = 5
MAX_EXCERPT_CHARS = 240
MAX_ADDED_TERMS = 5
MIN_FEEDBACK_PASSAGES = 2
_FEEDBACK_WORD = re.compile(rf"[^\W\d_][\w.\-]{{2,}}|[{CJK_CHARACTERS}]{{2}}")
MAX_TERM_WORDS = 6
KEYWORD_SCHEMA = DecisionSchema(
    "keywords",
    "The key terms of a question",
    (
        SchemaField(
            "terms",
            "texts",
            "list of key terms",
            (
                "keywords",
                "keyword",
                "key terms",
                "key words",
                "search terms",
                "words",
                "phrases",
                "queries",
                "query",
                "result",
                "list",
                "output",
                "关键词",
                "关键字",
                "术语",
                "搜索词",
                "结果",
            ),
        ),
    ),
)
HYDE_SCHEMA = DecisionSchema(
    "passage",
    "A passage as it might stand in the knowledge",
    (
        SchemaField(
            "passage",
            "text",
            "two or three sentences",
            (
                "text",
                "answer",
                "document",
                "hypothetical passage",
                "hypothetical document",
                "content",
                "paragraph",
                "result",
                "output",
                "段落",
                "文本",
                "内容",
                "答案",
                "回答",
            ),
        ),
    ),
)
MAX_SUB_QUERIES = 3
MIN_SUB_QUERY_WORDS = 2
DECOMPOSE_SCHEMA = DecisionSchema(
    "decomposition",
    "What a question wants, and its parts",
    (
        SchemaField(
            "queries",
            "texts",
            "list of one to three search queries, each understandable alone",
            (
                "sub queries",
                "subqueries",
                "sub questions",
                "questions",
                "searches",
                "parts",
                "query",
                "list",
                "子查询",
                "子问题",
                "查询",
                "问题列表",
                "查询列表",
            ),
        ),
        SchemaField(
            "intent", "text", "what the asker wants, in one sentence", ("goal", "purpose", "意图", "目的", "目标")
        ),
        SchemaField(
            "terms",
            "texts",
            "list of terms of the domain; empty for none",
            ("domain terms", "keywords", "entities", "concepts", "术语", "领域术语", "关键词", "实体"),
        ),
    ),
)
_CONJUNCTION = re.compile(
    r"[?？;；]+|,?(?<!\s)\s++(?:and also|as well as|and then|and|or|versus|vs\.?)\s+(?=\w)|以及|并且|同时|还有|，另外",
    re.IGNORECASE,
)


async def prompt(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query rephrased for what the agent knows. The fallback is `rule`."""
    return await rewrite_all(queries, context, _llm_prompt, rule_based_rewrite)


async def _llm_prompt(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    accept = _accept_on_subject(query, context)
    return await ask_llm("rewrite_prompt", QUERY_SCHEMA, fence_query(query), accept, context)


def _accept_on_subject(query: Query, context: RewriteContext) -> Callable[[ParsedReply], Sequence[Query] | None]:
    """Return what takes a model's rewrite that can be searched and shares a word with the query or the agent."""

    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("query")
        is_usable = is_valid_rewrite(text, query) and shares_terms(text, query, context)
        return [replace(query, text=text)] if is_usable else None

    return accept


async def retrieval(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query rephrased in the words of a first search (pseudo relevance feedback).

    The search is that for the original question; when it finds nothing, the queries stay as they are. The fallback adds
    the terms that several of its first passages share to the words.
    """
    passages = (await context.run_stage(RETRIEVAL_STAGE, context.first()) or ())[:MAX_FEEDBACK_PASSAGES]
    if not passages:
        return queries

    async def llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
        accept = _accept_on_subject(query, context)
        evidence = "\n".join(f"- {_to_excerpt(passage.title)}: {_to_excerpt(passage.text)}" for passage in passages)
        request = f"<evidence>\n{escape_delimiters(evidence)}\n</evidence>\n{fence_query(query)}"
        return await ask_llm(RETRIEVAL_STAGE, QUERY_SCHEMA, request, accept, context)

    def add_terms(query: Query, context: RewriteContext) -> Sequence[Query]:
        terms = get_expansion_terms(query.text, passages)
        return [replace(query, words=" ".join((query.get_lexical_text(), *terms)))] if terms else [query]

    return await rewrite_all(queries, context, llm_rewrite, add_terms)


def get_expansion_terms(text: str, passages: Sequence[Passage]) -> list[str]:
    """Return the terms that at least two of the passages share and the text does not have, by weight.

    The weight of a passage falls with its rank.
    """
    query_words = set(content_words(text))
    weights: dict[str, float] = defaultdict(float)
    document_frequency: dict[str, int] = defaultdict(int)
    for rank, passage in enumerate(passages):
        title_words = set(content_words(passage.title))
        text_words = content_words(passage.text)
        for term in {word for word in (*title_words, *text_words) if _FEEDBACK_WORD.fullmatch(word)} - query_words:
            term_frequency = text_words.count(term) / max(1, len(text_words))
            weights[term] += (term_frequency + (0.02 if term in title_words else 0.0)) / (1 + rank)
            document_frequency[term] += 1
    shared_terms = [term for term in weights if document_frequency[term] >= MIN_FEEDBACK_PASSAGES]
    return sorted(shared_terms, key=lambda term: (-weights[term], term))[:MAX_ADDED_TERMS]


def _to_excerpt(text: str) -> str:
    return " ".join(text.split())[:MAX_EXCERPT_CHARS]


async def keyword(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with its key terms as words. The fallback takes the noun phrases."""
    return await rewrite_all(queries, context, _llm_keyword, _rule_based_keyword)


async def _llm_keyword(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        raw_items = parsed_reply.get_texts("terms")
        # Terms on one line are one item of the reply.
        split_terms = [
            term.strip() for item in raw_items for term in item.replace("，", ",").replace("、", ",").split(",")
        ]
        terms = [term for term in split_terms if content_words(term) and len(term.split()) <= MAX_TERM_WORDS]
        keywords = join_terms((*terms, *find_synonyms(query.text, context.agent.synonyms)))
        return [replace(query, words=keywords)] if terms and shares_terms(keywords, query, context) else None

    return await ask_llm("rewrite_keyword", KEYWORD_SCHEMA, fence_query(query), accept, context)


def _rule_based_keyword(query: Query, context: RewriteContext) -> Sequence[Query]:
    terms = extract_noun_phrases(strip_fillers(query.text)) + find_synonyms(query.text, context.agent.synonyms)
    return [replace(query, words=join_terms(terms) or query.words)]


async def hyde(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query with a passage that would answer it as the text to embed (hypothetical documents).

    Passages resemble passages more than they resemble questions. The fallback is the question.
    """
    return await rewrite_all(queries, context, _llm_hyde, lambda query, _: [query])


async def _llm_hyde(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("passage")
        has_shared_words = not set(content_words(query.text)).isdisjoint(content_words(text))
        # A passage about the question shares a word with it, unless it is in another script.
        is_related = has_shared_words or not has_same_script(text, query.text)
        return [replace(query, dense=text)] if is_related and is_valid_rewrite(text, query, MAX_PASSAGE_CHARS) else None

    return await ask_llm("rewrite_hyde", HYDE_SCHEMA, fence_query(query), accept, context)


async def translation(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query translated into the agent's language, unless it is in that language or none is configured.

    The fallback replaces words and phrases by the agent's synonyms. A translated query loses the words and the text to
    embed that other rewrites gave it. With `keep_original` the untranslated queries follow, for knowledge in several
    languages.
    """
    language = context.agent.language
    foreign_queries = [query for query in queries if language and is_in_language(query.text, language) is not True]
    if not foreign_queries:
        return queries
    translated_queries = await rewrite_all(foreign_queries, context, _llm_translation, _rule_based_translation)
    translations = dict(zip(foreign_queries, translated_queries, strict=True))
    originals = foreign_queries if context.agent.keep_original else []
    return [*(translations.get(query, query) for query in queries), *originals]


async def _llm_translation(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    # Only in a question of another script are Latin words certainly names.
    names = extract_names(query.text) if detect_language(query.text) else set()

    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("query")
        is_wrong = is_in_language(text, context.agent.language) is False or not names <= extract_names(text)
        is_usable = is_valid_rewrite(text, query) and not is_wrong and not is_foreign_to(text, query.text)
        return [Query(text)] if is_usable else None

    return await ask_llm("rewrite_translation", QUERY_SCHEMA, fence_query(query), accept, context)


def _rule_based_translation(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = replace_synonyms(query.text, context.agent.synonyms)
    return [Query(text) if text != query.text else query]


async def decompose(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query, followed by its sub-queries if there are at least two.

    The query itself gets the terms of the domain as words and the intent as the text to embed. The fallback splits at
    question marks and conjunctions and takes noun phrases as terms.
    """
    return await rewrite_all(queries, context, _llm_decompose, _rule_based_decompose)


async def _llm_decompose(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        sub_queries = [
            sub_query for sub_query in parsed_reply.get_texts("queries") if is_valid_rewrite(sub_query, query)
        ][:MAX_SUB_QUERIES]
        if not sub_queries or not shares_terms(" ".join(sub_queries), query, context):
            return None
        intent = parsed_reply.get_text("intent")
        valid_intent = intent if is_valid_rewrite(intent, query) and shares_terms(intent, query, context) else ""
        return _compose_queries(query, sub_queries, parsed_reply.get_texts("terms"), valid_intent, context)

    return await ask_llm("rewrite_decompose", DECOMPOSE_SCHEMA, fence_query(query), accept, context)


def _rule_based_decompose(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = strip_fillers(query.text)
    segments = [segment.strip(" ,，。.") for segment in _CONJUNCTION.split(text)]
    can_split = all(len(content_words(segment)) >= MIN_SUB_QUERY_WORDS for segment in segments if segment)
    # When a conjunction joins single words, each half alone says too little.
    sub_queries = [segment for segment in segments if segment][:MAX_SUB_QUERIES] if can_split else []
    return _compose_queries(query, sub_queries, extract_noun_phrases(text), "", context)


def _compose_queries(
    query: Query, sub_queries: Sequence[str], terms: Sequence[str], intent: str, context: RewriteContext
) -> Sequence[Query]:
    agent_synonyms = find_synonyms(query.text, context.agent.synonyms)
    text = query.get_lexical_text()
    keywords = join_terms((text, *(term for term in (*terms, *agent_synonyms) if term.lower() not in text.lower())))
    full_query = replace(query, words=keywords if keywords != query.text else "", dense=query.dense or intent)
    return [full_query, *(Query(sub_query) for sub_query in sub_queries)] if len(sub_queries) > 1 else [full_query]


REWRITES: Mapping[str, Rewrite] = {
    "prompt": prompt,
    "retrieval": retrieval,
    "keyword": keyword,
    "hyde": hyde,
    "translation": translation,
    "rule": rule,
    "decompose": decompose,
}
