package fakeanthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func (c *checker) checkMessages() *Reply {
	messages, _ := c.body["messages"].([]any)
	if len(messages) == 0 {
		return newInvalid("messages: at least one message is required")
	}
	var before string
	var open []string
	for i, m := range messages {
		message, _ := m.(object)
		role, _ := message["role"].(string)
		path := fmt.Sprintf("messages.%d", i)
		switch {
		case checkFields(path+".", message, []string{"role", "content"}) != nil:
			return checkFields(path+".", message, []string{"role", "content"})
		case role != "user" && role != "assistant":
			return newInvalid("%s.role: Input should be 'user' or 'assistant'", path)
		case i == 0 && role != "user":
			return newInvalid("messages: first message must use the \"user\" role")
		case role == before:
			return newInvalid("messages: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", role)
		}
		before = role
		blocks := contentBlocks(message["content"])
		if len(blocks) == 0 {
			return newInvalid("%s: all messages must have non-empty content", path)
		}
		var failure *Reply
		if open, failure = c.checkMessage(path, role, blocks, open); failure != nil {
			return failure
		}
	}
	if len(open) > 0 {
		return missingResults(fmt.Sprintf("messages.%d", len(messages)-1), open)
	}
	return c.checkEnd(messages)
}

// contentBlocks returns the blocks in a content. The content may be a string.
func contentBlocks(content any) []any {
	if text, ok := content.(string); ok {
		return []any{object{"type": "text", "text": text}}
	}
	blocks, _ := content.([]any)
	return blocks
}

func missingResults(path string, ids []string) *Reply {
	return newInvalid("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", path, strings.Join(ids, ", "))
}

// checkMessage checks a message after one with open calls, and returns its own calls.
func (c *checker) checkMessage(path, role string, blocks []any, open []string) (calls []string, failure *Reply) {
	types := strings.Fields("text image document tool_result")
	if role == "assistant" {
		types = strings.Fields("text tool_use thinking redacted_thinking server_tool_use")
	}
	other := false // another block came before
	for i, b := range blocks {
		at := fmt.Sprintf("%s.content.%d", path, i)
		if failure := c.checkBlock(at, b, types...); failure != nil {
			return nil, failure
		}
		block := b.(object)
		switch block["type"] {
		case "tool_use":
			id := block["id"].(string)
			if c.usedIDs[id] {
				return nil, newInvalid("messages: `tool_use` ids must be unique")
			}
			c.usedIDs[id] = true
			calls = append(calls, id)
		case "tool_result":
			id, _ := block["tool_use_id"].(string)
			n := slices.Index(open, id)
			switch {
			case n < 0:
				return nil, newInvalid("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
					"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, id)
			case other:
				return nil, newInvalid("%s: `tool_result` blocks must come first in the message", at)
			}
			open = slices.Delete(slices.Clone(open), n, n+1)
		default:
			other = true
		}
	}
	if len(open) > 0 {
		return nil, missingResults(path, open)
	}
	return calls, nil
}

// checkBlock checks a block on its own.
func (c *checker) checkBlock(path string, b any, types ...string) *Reply {
	block, _ := b.(object)
	kind, _ := block["type"].(string)
	if !slices.Contains(types, kind) {
		return newInvalid("%s: Input tag '%s' found using 'type' does not match any of the expected tags: '%s'", path, kind, strings.Join(types, "', '"))
	}
	if failure := checkFields(path+"."+kind+".", block, blockFields[kind]); failure != nil {
		return failure
	}
	c.countCached(block)
	switch kind {
	case "text":
		text, _ := block["text"].(string)
		if text == "" {
			return newInvalid("messages: text content blocks must be non-empty")
		}
		if strings.TrimSpace(text) == "" {
			return newInvalid("messages: text content blocks must contain non-whitespace text")
		}
	case "image", "document":
		return checkSource(path+"."+kind, block)
	case "tool_use":
		return c.checkToolUse(path, block)
	case "tool_result":
		for i, inner := range contentBlocks(block["content"]) {
			if text, ok := block["content"].(string); ok && text == "" {
				break
			}
			if failure := c.checkBlock(fmt.Sprintf("%s.tool_result.content.%d", path, i), inner, "text", "image", "document"); failure != nil {
				return failure
			}
		}
	case "thinking":
		text, _ := block["thinking"].(string)
		signature, _ := block["signature"].(string)
		if !c.server.hasIssued(text, signature) {
			return newInvalid("%s: Invalid `signature` in `thinking` block", path)
		}
	case "redacted_thinking":
		data, _ := block["data"].(string)
		if !c.server.hasIssued("", data) {
			return newInvalid("%s: Invalid `data` in `redacted_thinking` block", path)
		}
	}
	return nil
}

func (c *checker) checkToolUse(path string, block object) *Reply {
	id, _ := block["id"].(string)
	name, _ := block["name"].(string)
	_, hasInput := block["input"].(object)
	tools, _ := c.body["tools"].([]any)
	switch {
	case !toolUseID.MatchString(id):
		return newInvalid("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", path)
	case !toolName.MatchString(name):
		return newInvalid("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
	case !hasInput:
		return newInvalid("%s.tool_use.input: Input should be a valid dictionary", path)
	case len(tools) == 0:
		return newInvalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
	}
	return nil
}

// sourceTypes are base64 sources' media types.
var sourceTypes = map[string][]any{
	"image":    {"image/jpeg", "image/png", "image/gif", "image/webp"},
	"document": {"application/pdf"},
}

func checkSource(path string, block object) *Reply {
	source, _ := block["source"].(object)
	kind, _ := block["type"].(string)
	switch source["type"] {
	case "base64":
		if !slices.Contains(sourceTypes[kind], source["media_type"]) {
			return newInvalid("%s.source.base64.media_type: Input should be one of %v", path, sourceTypes[kind])
		}
		encoded, _ := source["data"].(string)
		data, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err != nil:
			return newInvalid("%s.source.base64.data: invalid base64 data", path)
		case kind == "document" && !strings.HasPrefix(string(data), "%PDF"):
			return newInvalid("%s.source.base64: The PDF specified was not valid.", path)
		case kind == "image" && http.DetectContentType(data) != source["media_type"]:
			return newInvalid("%s.source.base64: Could not process image", path)
		}
	case "text":
		if kind != "document" || source["media_type"] != "text/plain" {
			return newInvalid("%s.source.text.media_type: Input should be 'text/plain'", path)
		}
	case "url":
		if url, _ := source["url"].(string); !strings.HasPrefix(url, "http") {
			return newInvalid("%s.source.url: Only HTTPS URLs are supported.", path)
		}
	default:
		return newInvalid("%s.source: Field required", path)
	}
	return nil
}

// checkEnd checks what depends on the end of the conversation: the white space in an assistant's
// last text, and the thinking before the last calls.
func (c *checker) checkEnd(messages []any) *Reply {
	last := messages[len(messages)-1].(object)
	blocks := contentBlocks(last["content"])
	if last["role"] == "assistant" {
		text, _ := blocks[len(blocks)-1].(object)["text"].(string)
		if strings.TrimRight(text, " \t\r\n") != text {
			return newInvalid("messages: final assistant content cannot end with trailing whitespace")
		}
		return nil
	}
	if c.thinking != "enabled" || blocks[0].(object)["type"] != "tool_result" {
		return nil
	}
	first := contentBlocks(messages[len(messages)-2].(object)["content"])[0].(object)
	if first["type"] != "thinking" && first["type"] != "redacted_thinking" {
		return newInvalid("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, "+
			"a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
			len(messages)-2, first["type"])
	}
	return nil
}

// encodeJSON encodes a value that has only JSON's types.
func encodeJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
