"""What a turn works with, put together: tools, their context, the rules, the instructions, the loop."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pathlib import Path
from typing import TYPE_CHECKING

from gadget_api.events import Notice
from gadget_api.inquiries import Answer, Choice, InquiryKind, InquiryStatus
from gadget_api.messages import SystemMessage, ToolCallRequest
from gadget_drone.agent.calls import Calls, Keep
from gadget_drone.agent.control import Control
from gadget_drone.agent.conversation import Conversation
from gadget_drone.agent.inquiries import Inquiries
from gadget_drone.agent.limits import Limits
from gadget_drone.agent.loop import Loop
from gadget_drone.agent.models import Models
from gadget_drone.agent.permission import Permission
from gadget_drone.agent.snapshots import Snapshots
from gadget_drone.agent.window import Window
from gadget_drone.context.instructions import Instructions
from gadget_drone.context.system_prompt import system_prompt
from gadget_drone.permissions.decide import allows_network, hidden_patterns
from gadget_drone.permissions.repository import RepositoryRules, repository_rules
from gadget_drone.stream import EventStream
from gadget_drone.tools.tool import Command, ToolContext, ToolResult
from gadget_drone.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from gadget_drone.agent.turn import TurnPlan
