"""The words of follow-ups: what a question is made of besides its subject, in English and Chinese."""

from __future__ import annotations

# What is done with a subject, and what it may have: these words alone name none.
GENERIC_WORDS = """
    able add advantage allow alternative amount answer application apply argument author available avoid bad
    begin benefit best better big bigger bit bring buy call cancel case cause change character cheap check
    choose common compare con configure consequence cost count cover create deadline default delete describe
    detail difference different difficult disable disadvantage docs documentation downside easy edit effect
    elaborate enable end error example exist expensive extend extra factor fail famous fast faster feature fee
    find finding first fix follow forbid free generate give good happen happened hard help impact implication
    important improve increase info information install interesting key kind large last late later layer learn
    least legal level limit link list long longer look lose main manage many matter maximum mean meaning member
    mention method minimum mistake mode modern month most move much name necessary need new number
    often ok okay old open opt option order other paid parameter part pay people person pick place point
    popular possible powerful prevent price pro problem process produce project provide purpose question quick
    quickly read reason receive recommend reduce relationship reliable remove replace require requirement reset
    result return risk role run safe safely send set setting shape share show side sign similar similarity size
    slow slower small solution solve sort sound spread start state step stop submit successful suggest support
    switch symptom take tell theme thing time traditional treat treatable treatment true try turn type types
    typical typically unique update use used useful usually value variant version want way well work world
    worse worst write wrong year
"""
# Question words, particles, modal verbs and pronouns, of two characters or more.
CHINESE_FUNCTION_WORDS = """
    为什么 是不是 能不能 可不可以 可以不可以 有没有 要不要 会不会 需不需要 支不支持 好不好 行不行 对不对 是什么
    怎么办 怎么样 怎么做 怎样 怎么 如何 什么时候 什么 哪里 哪儿 哪个 哪些 哪种 哪一个 哪一种 多少 多久 多长
    多大 多高 多远 几个 几点 几次 几天 几种 几年 是否 能否 可否 的话 应该 应当 可以 可能 需要 必须 能够 或者
    还是 还有 比较 因为 所以 但是 不过 如果 要是 假如 万一 的时候 时候 之后 以后 之前 以前 里面 没有 无法 我们
    你们 他们 它们 咱们 大家 别人 本人 自己 这样 那样 这么 那么 这个 那个 这些 那些 这种 那种 这里 那里 这边
    其他 其它 另外 别的 一样 相同 具体 详细 大概 一般 通常 默认 最多 最少 最大 最小 分别 真的 一下 一次 一起
    一个 一些 一种 一点 两个 两者 看到 知道 了解 解释 介绍 举个例子 举例 例子 示例 比如 例如
"""
CHINESE_GENERIC_WORDS = """
    支持 使用 设置 配置 安装 卸载 打开 开启 开通 关闭 关掉 启用 禁用 启动 停止 取消 修改 更改 更换 换成 添加
    增加 删除 移除 创建 新建 建立 编写 读取 写入 保存 加载 查看 检查 处理 解决 修复 实现 运行 执行 操作 办理
    申请 提交 收费 免费 费用 价格 便宜 限制 大小 上限 下限 数量 时间 期限 延期 区别 不同 好处 坏处 优点 缺点
    优势 劣势 原因 理由 意思 含义 作用 用途 用处 功能 方法 办法 方式 步骤 流程 过程 选项 参数 默认值 版本 类型
    格式 名字 名称 文档 链接 例外 情况 问题 错误 报错 失败 成功 有效 生效 影响 结果 返回 推荐 建议 选择 更好
    更快 简单 容易 安全 危险 麻烦 必要 可行 适合 适用 包括 包含 属于 存在 发生 出现 试试 学会 学习 搞定 退款
    优惠 条件 要求 材料 位置 地方 地址 作者 成员 主角 剧情 品牌 主要 内容 原理 特点 特征 目的 目标 结构 颜色
    尺寸 重量 年龄 生日 厉害 喜欢 觉得 认识 效果 好吃 好看 好用 速度 性能 质量 后果 风险 关系 顺序 频率 次数
    调小 调大 调低 调高 调整 减小 增大 加大 缩小 放大
    人数 周期 有效期 截止 日期 开始 结束 负责 联系 电话 邮箱 官网 下载 成本 精度 导出 导入 迁移 部署 延长 继续
    恢复 重置 重启 更新 升级 连接 登录 注册 统计 播种
"""
# What is asked about a subject, which another subject inherits: "What about X?", X 呢？
CHINESE_PREDICATES = "导出 导入 迁移 部署 连接 登录 注册 统计 播种 升级 安装 卸载 申请 办理 退款 延期"
