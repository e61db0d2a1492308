#include "kvarn-tool-template.h"

// The form most ChatML models with tools were trained on: a <tools> list, calls as JSON in <tool_call>, results in <tool_response>.
static const char * CHATML_WITH_TOOLS = R"jinja(
{%- set has_system = messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + (messages[0].content if has_system else 'You are a helpful assistant.') }}
{{- '\n\nYou can call these functions, one JSON description a line:\n<tools>' }}
{%- for tool in tools %}
    {{- '\n' }}
    {{- tool | tojson }}
{%- endfor %}
{{- '\n</tools>\n\nTo call one, write its name and arguments as JSON:\n<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call><|im_end|>\n' }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response><|im_end|>\n' }}
    {%- elif not (loop.first and has_system) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
)jinja";

std::string kvarn_tool_template(const std::string & own_template) {
    const bool is_chatml   = own_template.find("<|im_start|>") != std::string::npos;
    const bool knows_tools = own_template.find("tool") != std::string::npos;
    return is_chatml && !knows_tools ? CHATML_WITH_TOOLS : "";
}
