CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.answers (
    number integer NOT NULL,
    day character varying NOT NULL,
    platform character varying NOT NULL,
    chat character varying NOT NULL,
    author_id character varying NOT NULL,
    question_id character varying NOT NULL,
    outcome character varying NOT NULL,
    prompt integer NOT NULL,
    completion integer NOT NULL,
    cost double precision NOT NULL,
    estimated integer DEFAULT 0 NOT NULL,
    head_starts integer DEFAULT 0 NOT NULL,
    head_starts_kept integer DEFAULT 0 NOT NULL
);
CREATE SEQUENCE public.answers_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.answers_number_seq OWNED BY public.answers.number;
CREATE TABLE public.audit (
    number integer NOT NULL,
    at timestamp with time zone NOT NULL,
    platform character varying NOT NULL,
    chat character varying NOT NULL,
    author_id character varying NOT NULL,
    outcome character varying NOT NULL,
    command character varying NOT NULL,
    subject character varying NOT NULL,
    before character varying NOT NULL,
    after character varying NOT NULL
);
CREATE SEQUENCE public.audit_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_number_seq OWNED BY public.audit.number;
CREATE TABLE public.cursors (
    name character varying NOT NULL,
    "position" bigint NOT NULL
);
CREATE TABLE public.feedback (
    number integer NOT NULL,
    platform character varying NOT NULL,
    bot character varying NOT NULL,
    chat character varying NOT NULL,
    question character varying NOT NULL,
    author_id character varying NOT NULL,
    verdict character varying NOT NULL,
    reason character varying NOT NULL,
    press character varying NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE SEQUENCE public.feedback_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.feedback_number_seq OWNED BY public.feedback.number;
CREATE TABLE public.feeds (
    feed character varying NOT NULL,
    polled_at double precision NOT NULL,
    etag character varying NOT NULL,
    modified character varying NOT NULL,
    known_ids json NOT NULL
);
CREATE TABLE public.leases (
    name character varying NOT NULL,
    owner character varying NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.messages (
    number integer NOT NULL,
    platform character varying NOT NULL,
    bot character varying NOT NULL,
    chat character varying NOT NULL,
    thread character varying NOT NULL,
    id character varying NOT NULL,
    author_id character varying NOT NULL,
    author character varying NOT NULL,
    text character varying NOT NULL,
    command character varying NOT NULL,
    reply_to character varying NOT NULL,
    quoted character varying NOT NULL,
    private boolean NOT NULL,
    addressed boolean NOT NULL,
    reference json NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL,
    state character varying NOT NULL,
    reason character varying NOT NULL,
    reply_id character varying NOT NULL,
    reply character varying NOT NULL,
    citations json,
    trace json,
    settled_at timestamp with time zone,
    attachments json,
    image_description character varying,
    is_by_bot boolean DEFAULT false NOT NULL,
    in_restricted_thread boolean DEFAULT false NOT NULL,
    in_main_chat boolean DEFAULT false NOT NULL,
    is_question_hidden boolean DEFAULT false NOT NULL,
    is_post boolean,
    is_shared_thread boolean,
    thread_started_at double precision,
    parent_id character varying DEFAULT ''::character varying NOT NULL,
    language character varying DEFAULT ''::character varying NOT NULL,
    purpose character varying DEFAULT ''::character varying NOT NULL,
    root_id character varying DEFAULT ''::character varying NOT NULL,
    retry_reason character varying DEFAULT ''::character varying NOT NULL,
    feed_entry json,
    mentioned_users json,
    delivery json,
    visible_sources json,
    detail character varying DEFAULT ''::character varying NOT NULL,
    owner character varying DEFAULT ''::character varying NOT NULL
);
CREATE SEQUENCE public.messages_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.messages_number_seq OWNED BY public.messages.number;
CREATE TABLE public.overrides (
    scope character varying NOT NULL,
    name character varying NOT NULL,
    value character varying NOT NULL
);
CREATE TABLE public.refreshes (
    source character varying NOT NULL,
    last_try timestamp with time zone,
    ended_at timestamp with time zone,
    last_success timestamp with time zone,
    changed_at timestamp with time zone,
    asked_at timestamp with time zone,
    unfinished boolean NOT NULL,
    paused boolean NOT NULL,
    failures integer NOT NULL,
    passages integer NOT NULL,
    documents integer NOT NULL,
    error character varying NOT NULL,
    fingerprint character varying NOT NULL,
    counts json
);
CREATE TABLE public.replies (
    number integer NOT NULL,
    scope character varying NOT NULL,
    fingerprint character varying NOT NULL,
    question character varying NOT NULL,
    canonical_form character varying NOT NULL,
    text character varying NOT NULL,
    versions json NOT NULL,
    reply json NOT NULL,
    made_at double precision NOT NULL
);
CREATE SEQUENCE public.replies_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.replies_number_seq OWNED BY public.replies.number;
CREATE TABLE public.spending (
    answer integer NOT NULL,
    agent character varying NOT NULL,
    day character varying NOT NULL,
    prompt integer NOT NULL,
    completion integer NOT NULL,
    cost double precision NOT NULL,
    estimated integer DEFAULT 0 NOT NULL,
    model character varying DEFAULT ''::character varying NOT NULL
);
CREATE TABLE public.taught_answers (
    number integer NOT NULL,
    platform character varying NOT NULL,
    chat character varying NOT NULL,
    lesson character varying NOT NULL,
    asked_by character varying NOT NULL,
    taught_by character varying NOT NULL,
    teacher character varying NOT NULL,
    question character varying NOT NULL,
    answer character varying NOT NULL,
    reviewer character varying NOT NULL,
    state character varying NOT NULL,
    at timestamp with time zone NOT NULL,
    reviewed_at timestamp with time zone
);
CREATE SEQUENCE public.taught_answers_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.taught_answers_number_seq OWNED BY public.taught_answers.number;
ALTER TABLE ONLY public.answers ALTER COLUMN number SET DEFAULT nextval('public.answers_number_seq'::regclass);
ALTER TABLE ONLY public.audit ALTER COLUMN number SET DEFAULT nextval('public.audit_number_seq'::regclass);
ALTER TABLE ONLY public.feedback ALTER COLUMN number SET DEFAULT nextval('public.feedback_number_seq'::regclass);
ALTER TABLE ONLY public.messages ALTER COLUMN number SET DEFAULT nextval('public.messages_number_seq'::regclass);
ALTER TABLE ONLY public.replies ALTER COLUMN number SET DEFAULT nextval('public.replies_number_seq'::regclass);
ALTER TABLE ONLY public.taught_answers ALTER COLUMN number SET DEFAULT nextval('public.taught_answers_number_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0008');
INSERT INTO public.answers VALUES (1, '2026-01-02', 'telegram', '-100', '42', '1', 'answered', 900, 40, 0.002, 0, 0, 0);
INSERT INTO public.audit VALUES (1, '2026-11-22 15:17:47.151389+00', 'telegram', '-100', '42', 'changed', 'mode mention', 'telegram:-100 mode', 'auto', 'mention');
INSERT INTO public.audit VALUES (2, '2026-11-22 15:17:47.163459+00', 'telegram', '-100', '42', 'changed', 'source off docs', 'off.docs', '', '1');
INSERT INTO public.cursors VALUES ('telegram:9', 77);
INSERT INTO public.feedback VALUES (1, 'telegram', '9', '-100', '1', '43', 'up', '', 'p1', '2026-11-22 15:17:47.124123+00');
INSERT INTO public.feedback VALUES (2, 'telegram', '9', '-100', '1', '44', 'down', 'wrong', 'p2', '2026-11-22 15:17:47.127474+00');
INSERT INTO public.feeds VALUES ('news', 1767340800, '"etag"', 'Fri, 02 Jan 2026 08:00:00 GMT', '["a", "b"]');
INSERT INTO public.messages VALUES (1, 'telegram', '9', '-100', '7', '1', '42', 'Ann', 'How do I install it?', '', '', '', false, true, '{"chat_id": -100}', '2026-01-02 08:30:00+00', '2026-11-22 15:17:46.913988+00', 'answered', '', '2', 'Run `pip install kimas` [1].', '[{"n": 1, "passage_id": "docs/install.md#0", "source": "docs"}]', '{"query": "install kimas", "strategy": "auto", "dropped_citations": 0, "cached": false, "agents": ["answer"], "cut": [], "timings_ms": {"search": 12.5}, "tokens": {"answer.prompt": 900, "answer.completion": 40}, "cost": {"answer": 0.002}, "why_cut": {}, "rounds": []}', '2026-11-22 15:17:46.958062+00', NULL, '', false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (2, 'telegram', '9', '-100', '7', '3', '43', 'Ben O''Neill', 'Nice weather; isn''t it?
Yes.', '', '', '', false, false, '{"chat_id": -100}', '2026-01-02 08:30:00+00', '2026-11-22 15:17:46.965763+00', 'silent', 'not a question', '', '', NULL, NULL, '2026-11-22 15:17:47.026463+00', NULL, NULL, false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (3, 'telegram', '9', '-100', '7', '4', '43', 'Ben', 'Why does this fail? 为什么?', '', '2', '', false, true, '{"chat_id": -100}', '2026-01-02 08:30:00+00', '2026-11-22 15:17:47.034098+00', 'received', '', '', '', NULL, NULL, NULL, '[{"kind": "picture", "name": "error.png", "size": 1200, "reference": {"file_id": "file-1"}}]', NULL, false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (4, 'telegram', '9', '-100', '7', '5', '42', 'Ann', 'What does it cost?', '', '', '', false, true, '{"chat_id": -100}', '2026-01-02 08:30:00+00', '2026-11-22 15:17:47.110167+00', 'failed', 'the model is down', '', '', NULL, NULL, '2026-11-22 15:17:47.11246+00', NULL, NULL, false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (5, 'discord', 'A', 'C', 'p', 'closed', 'U1', 'Eve', 'So.', '', '', '', false, false, '{}', '2026-01-03 00:00:00+00', '2026-01-03 00:00:00+00', 'received', '', '', '', NULL, NULL, NULL, NULL, NULL, false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (6, 'discord', 'B', 'C', 'p', 'closed', 'U1', 'Eve', 'So.', '', '', '', false, false, '{}', '2026-01-03 00:00:00+00', '2026-01-03 00:00:00+00', 'received', '', '', '', NULL, NULL, NULL, NULL, NULL, false, true, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (7, 'discord', 'B', 'C', 't', 'open', 'U1', 'Eve', 'So.', '', '', '', false, false, '{}', '2026-01-03 00:00:00+00', '2026-01-03 00:00:00+00', 'received', '', '', '', NULL, NULL, NULL, NULL, NULL, false, false, false, false, NULL, NULL, NULL, '', '', '', '', '', NULL, NULL, NULL, NULL, '', '');
INSERT INTO public.messages VALUES (8, 'slack', 'B1', 'C1', '6', '9', 'U1', 'Ann', 'How?', '', '', '', false, false, '{}', '2026-01-03 00:00:00+00', '2026-01-03 00:00:00+00', 'received', '', '', '', NULL, NULL, NULL, NULL, NULL, true, false, true, true, false, false, 17.5, '6', 'de', 'escalation', '7', 'wrong', '{"feed": "games", "title": "", "link": "", "is_too_old": false}', '["U2"]', NULL, NULL, '', '');
INSERT INTO public.overrides VALUES ('', 'off.docs', '1');
INSERT INTO public.overrides VALUES ('telegram:-100', 'mode', 'mention');
INSERT INTO public.refreshes VALUES ('docs', '2026-11-22 15:17:47.174245+00', '2026-11-22 15:17:47.185686+00', '2026-11-22 15:17:47.185686+00', '2026-11-22 15:17:47.185686+00', NULL, false, false, 0, 12, 3, '', 'abc', '{"added": 3}');
INSERT INTO public.refreshes VALUES ('notes', NULL, NULL, NULL, NULL, NULL, false, true, 0, 0, 0, '', '', NULL);
INSERT INTO public.replies VALUES (1, '["telegram", "-100"]', 'made by', 'how do i install it', 'install', 'How do I install it?', '{"docs": "v1"}', '{"text": "Run `pip install kimas` [1].", "citations": [{"n": 1, "passage_id": "docs/install.md#0", "source": "docs", "title": "Install", "path": "install.md", "url": "https://example.org/install"}], "passages": [], "extractive": false, "trace": {"query": "install kimas", "strategy": "auto", "agents": ["answer"]}}', 1795360667.2017539);
INSERT INTO public.spending VALUES (1, 'answer', '2026-01-02', 900, 40, 0.002, 0, '');
INSERT INTO public.taught_answers VALUES (1, 'telegram', '-100', '6', '42', '44', 'Cleo', 'What does it cost?', 'Nothing.', 'Boss', 'approved', '2026-11-22 15:17:47.129177+00', '2026-11-22 15:17:47.134992+00');
INSERT INTO public.taught_answers VALUES (2, 'telegram', '-100', '7', '42', '44', 'Cleo', 'Who made it?', 'We did.', '', 'pending', '2026-11-22 15:17:47.141698+00', NULL);
INSERT INTO public.taught_answers VALUES (3, 'discord', 'C', 'closed', '', 'U1', 'Eve', 'From closed?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
INSERT INTO public.taught_answers VALUES (4, 'discord', 'C', 'open', '', 'U1', 'Eve', 'From open?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
INSERT INTO public.taught_answers VALUES (5, 'discord', 'C', 'gone discord', '', 'U1', 'Eve', 'From gone discord?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
INSERT INTO public.taught_answers VALUES (6, 'slack', 'C', 'gone slack', '', 'U1', 'Eve', 'From gone slack?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
INSERT INTO public.taught_answers VALUES (7, 'telegram', 'C', 'gone telegram', '', 'U1', 'Eve', 'From gone telegram?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
INSERT INTO public.taught_answers VALUES (8, 'http', 'C', 'gone http', '', 'U1', 'Eve', 'From gone http?', 'So.', '', 'pending', '2026-01-03 00:00:00+00', NULL);
SELECT pg_catalog.setval('public.answers_number_seq', 2, false);
SELECT pg_catalog.setval('public.audit_number_seq', 3, false);
SELECT pg_catalog.setval('public.feedback_number_seq', 3, false);
SELECT pg_catalog.setval('public.messages_number_seq', 9, false);
SELECT pg_catalog.setval('public.replies_number_seq', 2, false);
SELECT pg_catalog.setval('public.taught_answers_number_seq', 9, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkey PRIMARY KEY (version_num);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.cursors
    ADD CONSTRAINT cursors_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.feedback
    ADD CONSTRAINT feedback_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.feeds
    ADD CONSTRAINT feeds_pkey PRIMARY KEY (feed);
ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.overrides
    ADD CONSTRAINT overrides_pkey PRIMARY KEY (scope, name);
ALTER TABLE ONLY public.refreshes
    ADD CONSTRAINT refreshes_pkey PRIMARY KEY (source);
ALTER TABLE ONLY public.replies
    ADD CONSTRAINT replies_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.spending
    ADD CONSTRAINT spending_pkey PRIMARY KEY (answer, agent);
ALTER TABLE ONLY public.taught_answers
    ADD CONSTRAINT taught_answers_pkey PRIMARY KEY (number);
CREATE INDEX answers_chat ON public.answers USING btree (day, platform, chat, outcome, prompt, completion, cost);
CREATE INDEX answers_day ON public.answers USING btree (day, prompt, completion, cost);
CREATE INDEX answers_user ON public.answers USING btree (day, platform, author_id);
CREATE INDEX audit_chat ON public.audit USING btree (platform, chat);
CREATE INDEX feedback_at ON public.feedback USING btree (at);
CREATE UNIQUE INDEX feedback_person ON public.feedback USING btree (platform, bot, chat, question, author_id);
CREATE INDEX messages_conversation ON public.messages USING btree (platform, chat, thread, number);
CREATE INDEX messages_detail ON public.messages USING btree (detail, number);
CREATE UNIQUE INDEX messages_identity ON public.messages USING btree (platform, bot, chat, id);
CREATE INDEX messages_received_at ON public.messages USING btree (received_at);
CREATE INDEX messages_root ON public.messages USING btree (root_id);
CREATE INDEX messages_state ON public.messages USING btree (state);
CREATE INDEX replies_canonical_form ON public.replies USING btree (scope, canonical_form);
CREATE INDEX replies_made_at ON public.replies USING btree (made_at);
CREATE INDEX replies_question ON public.replies USING btree (scope, question);
CREATE INDEX spending_day ON public.spending USING btree (day, agent, model, prompt, completion, cost, estimated);
CREATE UNIQUE INDEX taught_answers_lesson ON public.taught_answers USING btree (platform, chat, lesson);
CREATE INDEX taught_answers_state ON public.taught_answers USING btree (state);
