BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0008');
CREATE TABLE answers (
	number INTEGER NOT NULL, 
	day VARCHAR(10) NOT NULL, 
	platform VARCHAR(128) NOT NULL, 
	chat VARCHAR(128) NOT NULL, 
	author_id VARCHAR(128) NOT NULL, 
	question_id VARCHAR(128) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	prompt INTEGER NOT NULL, 
	completion INTEGER NOT NULL, 
	cost FLOAT NOT NULL, 
	estimated INTEGER DEFAULT '0' NOT NULL, 
	head_starts INTEGER DEFAULT '0' NOT NULL, 
	head_starts_kept INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "answers" VALUES(1,'2026-01-02','telegram','-100','42','1','answered',900,40,0.002,0,0,0);
CREATE TABLE audit (
	number INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	platform VARCHAR(128) NOT NULL, 
	chat VARCHAR(128) NOT NULL, 
	author_id VARCHAR(128) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	command TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	"before" TEXT NOT NULL, 
	"after" TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "audit" VALUES(1,'2026-11-22 15:17:47.151389','telegram','-100','42','changed','mode mention','telegram:-100 mode','auto','mention');
INSERT INTO "audit" VALUES(2,'2026-11-22 15:17:47.163459','telegram','-100','42','changed','source off docs','off.docs','','1');
CREATE TABLE cursors (
	name VARCHAR(128) NOT NULL, 
	position BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "cursors" VALUES('telegram:9',77);
CREATE TABLE feedback (
	number INTEGER NOT NULL, 
	platform VARCHAR(128) NOT NULL, 
	bot VARCHAR(128) NOT NULL, 
	chat VARCHAR(128) NOT NULL, 
	question VARCHAR(128) NOT NULL, 
	author_id VARCHAR(128) NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	reason VARCHAR(16) NOT NULL, 
	press VARCHAR(128) NOT NULL, 
	at DATETIME NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "feedback" VALUES(1,'telegram','9','-100','1','43','up','','p1','2026-11-22 15:17:47.124123');
INSERT INTO "feedback" VALUES(2,'telegram','9','-100','1','44','down','wrong','p2','2026-11-22 15:17:47.127474');
CREATE TABLE feeds (
	feed VARCHAR(64) NOT NULL, 
	polled_at FLOAT NOT NULL, 
	etag TEXT NOT NULL, 
	modified TEXT NOT NULL, 
	known_ids JSON NOT NULL, 
	PRIMARY KEY (feed)
);
INSERT INTO "feeds" VALUES('news',1767340800.0,'"etag"','Fri, 02 Jan 2026 08:00:00 GMT','["a", "b"]');
CREATE TABLE leases (
	name VARCHAR(200) NOT NULL, 
	owner VARCHAR(32) NOT NULL, 
	expires_at DATETIME NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE messages (
	number INTEGER NOT NULL, 
	platform VARCHAR(128) NOT NULL, 
	bot VARCHAR(128) NOT NULL, 
	chat VARCHAR(128) NOT NULL, 
	thread VARCHAR(128) NOT NULL, 
	id VARCHAR(128) NOT NULL, 
	author_id VARCHAR(128) NOT NULL, 
	author TEXT NOT NULL, 
	text TEXT NOT NULL, 
	command TEXT NOT NULL, 
	reply_to TEXT NOT NULL, 
	quoted TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	addressed BOOLEAN NOT NULL, 
	reference JSON NOT NULL, 
	sent_at DATETIME NOT NULL, 
	received_at DATETIME NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	reply_id TEXT NOT NULL, 
	reply TEXT NOT NULL, 
	citations JSON, 
	trace JSON, 
	settled_at DATETIME, 
	attachments JSON, 
	image_description TEXT, 
	is_by_bot BOOLEAN DEFAULT 0 NOT NULL, 
	in_restricted_thread BOOLEAN DEFAULT 0 NOT NULL, 
	in_main_chat BOOLEAN DEFAULT 0 NOT NULL, 
	is_question_hidden BOOLEAN DEFAULT 0 NOT NULL, 
	is_post BOOLEAN, 
	is_shared_thread BOOLEAN, 
	thread_started_at FLOAT, 
	parent_id VARCHAR(128) DEFAULT '' NOT NULL, 
	language VARCHAR(128) DEFAULT '' NOT NULL, 
	purpose VARCHAR(128) DEFAULT '' NOT NULL, 
	root_id VARCHAR(128) DEFAULT '' NOT NULL, 
	retry_reason VARCHAR(128) DEFAULT '' NOT NULL, 
	feed_entry JSON, 
	mentioned_users JSON, 
	delivery JSON, 
	visible_sources JSON, 
	detail VARCHAR(16) DEFAULT '' NOT NULL, 
	owner VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "messages" VALUES(1,'telegram','9','-100','7','1','42','Ann','How do I install it?','','','',0,1,'{"chat_id": -100}','2026-01-02 08:30:00.000000','2026-11-22 15:17:46.913988','answered','','2','Run `pip install kimas` [1].','[{"n": 1, "passage_id": "docs/install.md#0", "source": "docs"}]','{"query": "install kimas", "strategy": "auto", "dropped_citations": 0, "cached": false, "agents": ["answer"], "cut": [], "timings_ms": {"search": 12.5}, "tokens": {"answer.prompt": 900, "answer.completion": 40}, "cost": {"answer": 0.002}, "why_cut": {}, "rounds": []}','2026-11-22 15:17:46.958062',NULL,'',0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(2,'telegram','9','-100','7','3','43','Ben O''Neill','Nice weather; isn''t it?
Yes.','','','',0,0,'{"chat_id": -100}','2026-01-02 08:30:00.000000','2026-11-22 15:17:46.965763','silent','not a question','','',NULL,NULL,'2026-11-22 15:17:47.026463',NULL,NULL,0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(3,'telegram','9','-100','7','4','43','Ben','Why does this fail? 为什么?','','2','',0,1,'{"chat_id": -100}','2026-01-02 08:30:00.000000','2026-11-22 15:17:47.034098','received','','','',NULL,NULL,NULL,'[{"kind": "picture", "name": "error.png", "size": 1200, "reference": {"file_id": "file-1"}}]',NULL,0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(4,'telegram','9','-100','7','5','42','Ann','What does it cost?','','','',0,1,'{"chat_id": -100}','2026-01-02 08:30:00.000000','2026-11-22 15:17:47.110167','failed','the model is down','','',NULL,NULL,'2026-11-22 15:17:47.112460',NULL,NULL,0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(5,'discord','A','C','p','closed','U1','Eve','So.','','','',0,0,'{}','2026-01-03 00:00:00.000000','2026-01-03 00:00:00.000000','received','','','',NULL,NULL,NULL,'null',NULL,0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(6,'discord','B','C','p','closed','U1','Eve','So.','','','',0,0,'{}','2026-01-03 00:00:00.000000','2026-01-03 00:00:00.000000','received','','','',NULL,NULL,NULL,'null',NULL,0,1,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(7,'discord','B','C','t','open','U1','Eve','So.','','','',0,0,'{}','2026-01-03 00:00:00.000000','2026-01-03 00:00:00.000000','received','','','',NULL,NULL,NULL,'null',NULL,0,0,0,0,NULL,NULL,NULL,'','','','','',NULL,NULL,NULL,NULL,'','');
INSERT INTO "messages" VALUES(8,'slack','B1','C1','6','9','U1','Ann','How?','','','',0,0,'{}','2026-01-03 00:00:00.000000','2026-01-03 00:00:00.000000','received','','','',NULL,NULL,NULL,'null',NULL,1,0,1,1,0,0,17.5,'6','de','escalation','7','wrong','{"feed": "games", "title": "", "link": "", "is_too_old": false}','["U2"]',NULL,NULL,'','');
CREATE TABLE overrides (
	scope VARCHAR(300) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (scope, name)
);
INSERT INTO "overrides" VALUES('','off.docs','1');
INSERT INTO "overrides" VALUES('telegram:-100','mode','mention');
CREATE TABLE refreshes (
	source VARCHAR(63) NOT NULL, 
	last_try DATETIME, 
	ended_at DATETIME, 
	last_success DATETIME, 
	changed_at DATETIME, 
	asked_at DATETIME, 
	unfinished BOOLEAN NOT NULL, 
	paused BOOLEAN NOT NULL, 
	failures INTEGER NOT NULL, 
	passages INTEGER NOT NULL, 
	documents INTEGER NOT NULL, 
	error TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	counts JSON, 
	PRIMARY KEY (source)
);
INSERT INTO "refreshes" VALUES('docs','2026-11-22 15:17:47.174245','2026-11-22 15:17:47.185686','2026-11-22 15:17:47.185686','2026-11-22 15:17:47.185686',NULL,0,0,0,12,3,'','abc','{"added": 3}');
INSERT INTO "refreshes" VALUES('notes',NULL,NULL,NULL,NULL,NULL,0,1,0,0,0,'','',NULL);
CREATE TABLE replies (
	number INTEGER NOT NULL, 
	scope VARCHAR(300) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	question TEXT NOT NULL, 
	canonical_form TEXT NOT NULL, 
	text TEXT NOT NULL, 
	versions JSON NOT NULL, 
	reply JSON NOT NULL, 
	made_at FLOAT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "replies" VALUES(1,'["telegram", "-100"]','made by','how do i install it','install','How do I install it?','{"docs": "v1"}','{"text": "Run `pip install kimas` [1].", "citations": [{"n": 1, "passage_id": "docs/install.md#0", "source": "docs", "title": "Install", "path": "install.md", "url": "https://example.org/install"}], "passages": [], "extractive": false, "trace": {"query": "install kimas", "strategy": "auto", "agents": ["answer"]}}',1.79536066720175385477e+09);
CREATE TABLE spending (
	answer INTEGER NOT NULL, 
	agent VARCHAR(128) NOT NULL, 
	day VARCHAR(10) NOT NULL, 
	prompt INTEGER NOT NULL, 
	completion INTEGER NOT NULL, 
	cost FLOAT NOT NULL, 
	estimated INTEGER DEFAULT '0' NOT NULL, 
	model VARCHAR(128) DEFAULT '' NOT NULL, 
	PRIMARY KEY (answer, agent)
);
INSERT INTO "spending" VALUES(1,'answer','2026-01-02',900,40,0.002,0,'');
CREATE TABLE taught_answers (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	platform VARCHAR(128) NOT NULL, 
	chat VARCHAR(128) NOT NULL, 
	lesson VARCHAR(128) NOT NULL, 
	asked_by VARCHAR(128) NOT NULL, 
	taught_by VARCHAR(128) NOT NULL, 
	teacher TEXT NOT NULL, 
	question TEXT NOT NULL, 
	answer TEXT NOT NULL, 
	reviewer TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	at DATETIME NOT NULL, 
	reviewed_at DATETIME
);
INSERT INTO "taught_answers" VALUES(1,'telegram','-100','6','42','44','Cleo','What does it cost?','Nothing.','Boss','approved','2026-11-22 15:17:47.129177','2026-11-22 15:17:47.134992');
INSERT INTO "taught_answers" VALUES(2,'telegram','-100','7','42','44','Cleo','Who made it?','We did.','','pending','2026-11-22 15:17:47.141698',NULL);
INSERT INTO "taught_answers" VALUES(3,'discord','C','closed','','U1','Eve','From closed?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
INSERT INTO "taught_answers" VALUES(4,'discord','C','open','','U1','Eve','From open?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
INSERT INTO "taught_answers" VALUES(5,'discord','C','gone discord','','U1','Eve','From gone discord?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
INSERT INTO "taught_answers" VALUES(6,'slack','C','gone slack','','U1','Eve','From gone slack?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
INSERT INTO "taught_answers" VALUES(7,'telegram','C','gone telegram','','U1','Eve','From gone telegram?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
INSERT INTO "taught_answers" VALUES(8,'http','C','gone http','','U1','Eve','From gone http?','So.','','pending','2026-01-03 00:00:00.000000',NULL);
CREATE INDEX messages_detail ON messages (detail, number);
CREATE INDEX messages_root ON messages (root_id);
CREATE INDEX messages_conversation ON messages (platform, chat, thread, number);
CREATE INDEX messages_received_at ON messages (received_at);
CREATE INDEX messages_state ON messages (state);
CREATE UNIQUE INDEX messages_identity ON messages (platform, bot, chat, id);
CREATE INDEX answers_chat ON answers (day, platform, chat, outcome, prompt, completion, cost);
CREATE INDEX answers_user ON answers (day, platform, author_id);
CREATE INDEX answers_day ON answers (day, prompt, completion, cost);
CREATE INDEX spending_day ON spending (day, agent, model, prompt, completion, cost, estimated);
CREATE INDEX replies_canonical_form ON replies (scope, canonical_form);
CREATE INDEX replies_made_at ON replies (made_at);
CREATE INDEX replies_question ON replies (scope, question);
CREATE INDEX audit_chat ON audit (platform, chat);
CREATE INDEX feedback_at ON feedback (at);
CREATE UNIQUE INDEX feedback_person ON feedback (platform, bot, chat, question, author_id);
CREATE UNIQUE INDEX taught_answers_lesson ON taught_answers (platform, chat, lesson);
CREATE INDEX taught_answers_state ON taught_answers (state);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('taught_answers',8);
COMMIT;
