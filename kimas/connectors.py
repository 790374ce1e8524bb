"""The connectors of KIMAs, as its entry points name them: each makes a source from the options of `kind: own`."""

from __future__ import annotations

from core.settings.connectors import (
    ConfluenceOptions,
    DiscordOptions,
    DiscourseOptions,
    GoogleDriveOptions,
    NotionOptions,
    SlackOptions,
)
from knowledge.connectors.confluence import Confluence
from knowledge.connectors.discord import DiscordChannels
from knowledge.connectors.discourse import Discourse
from knowledge.connectors.google_drive import GoogleDrive
from knowledge.connectors.notion import Notion
from knowledge.connectors.slack import SlackChannels
from knowledge.connectors.source import connector

open_confluence = connector(ConfluenceOptions, Confluence)
open_discord = connector(DiscordOptions, DiscordChannels)
open_discourse = connector(DiscourseOptions, Discourse)
open_google_drive = connector(GoogleDriveOptions, GoogleDrive)
open_notion = connector(NotionOptions, Notion)
open_slack = connector(SlackOptions, SlackChannels)
