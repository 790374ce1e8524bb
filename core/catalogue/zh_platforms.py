"""The Chinese texts of what chat platforms do: refusals, welcomes, menus and their entries."""

from __future__ import annotations

from collections.abc import Mapping


class ChinesePlatformTexts:
    """The texts in Chinese."""

    # 加入群组与菜单
    welcome_privacy = "我在这里看不到所有消息，只能看到提到我或回复我的消息。设置我的人可以更改：{setting}。"
    prompts_title = "可以这样问"
    what_can_you_do = "你能做什么？"
    ask_about_this = "就此提问"
    learn_from_this = "学习这条消息"

    passage_refused = "（这部分回答无法在这里显示：聊天平台没有接受它。）"

    # /settings
    form_title = "本聊天的设置"
    form_save = "保存"
    form_cancel = "取消"
    form_back = "« 返回"
    form_choose = "选择一项设置"
    form_choose_value = "选择一个值"
    form_value_missing = "缺少一个值。"
    form_field_gone = "这项设置已不存在。"
    form_too_many_fields = "资料源太多，这里放不下：其余的请用命令 sources on|off|scale 更改。"
    form_save_timeout = "保存时间超过了 Slack 的等待时间。结果会在频道里告诉你；用 /kimas settings 可以查看当前设置。"
    form_mode = "我在本聊天里何时发言"
    form_threshold = "主动发言所需的把握"
    form_threshold_hint = "0 到 1，或写 {default} 使用配置中的值（{configured}）"
    form_as_configured = "按配置（{configured}）"
    mode_names: Mapping[str, str] = {
        "off": "从不",
        "mention": "被提及时",
        "auto": "也会主动发言",
        "draft": "先由团队审阅",
    }
    form_source_used = "{source}：是否用于回答"
    form_source_weight = "{source}：内容的权重"
    form_weight_hint = "0.1 到 10；正常权重为 1"
    form_on = "启用"
    form_off = "停用"
    form_source_note = "{source}：用于回答，权重 {factor}；由所有者更改"
    form_source_off_note = "{source}：不用于回答，权重 {factor}；由所有者更改"
    form_persona_note = "本聊天的角色设定：{persona}"
    form_language_note = "本聊天的回答语言：{language}"
    form_chat_sources_note = "本聊天只检索：{sources}"
    form_asker_note = "本聊天的回答只给提问者看"
    form_models_note = "本聊天使用的语言模型：{set}（{model}）"
    form_no_model = "没有模型：回答是原文引用"
    form_line = "- {label}：{value}。{command}"
    form_value = "VALUE"
    form_hint = "（{hint}）"

    # Alerts to whoever runs the bot
    alert = "⚠️ {problem}"
    alert_over = "✅ 已恢复：{problem}"
    gap_report = (
        "**{since} 至 {until} 期间大家问过而我没能答好的问题**：{count} 个，前一周 {earlier} 个。"
        "运维页面列出了全部问题，并提供可填写的补丁。"
    )
    alert_source = "资料源 `{name}` 上次更新于 {since}，目前更新失败：{error}"
    alert_source_never = "资料源 `{name}` 还没能读取：{error}"
    alert_endpoint = "模型 `{name}` 自 {since} 起没有回应。如有备用端点，正在使用备用端点。"
    alert_platform = "`{name}` 自 {since} 起无法连接。"
    alert_clock_ahead = (
        "{moment}，本机时钟快进了 {duration}，或者机器曾休眠。时钟不对时请校准：签名的事件会被拒绝，问题会被当作过旧。"
    )
    alert_clock_back = (
        "{moment}，本机时钟被拨回了 {duration}。如果时间不对，请校准：签名的事件会被拒绝，按时刻进行的工作会推迟。"
    )
    alert_budget = "每日限额 `{name}` 已用 {share}：{used} / {limit}。用完后我将停止回答，直到午夜。"
    alert_silent = (
        "我已经 {hours} 小时没有主动回答，期间群里有 {messages} 条消息；此前每天主动回答 {usual} 次。"
        "请检查阈值和资料源，并用命令 `why` 查看原因。"
    )
