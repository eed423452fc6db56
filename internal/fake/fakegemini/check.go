package fakegemini

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"
)

func newInvalid(format string, args ...any) *Reply {
	failure := Failure(http.StatusBadRequest, fmt.Sprintf(format, args...))
	return &failure
}

// functionName matches function names.
var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

func checkName(path, name string) *Reply {
	switch {
	case name == "":
		return newInvalid("* GenerateContentRequest.%s: Name cannot be empty", path)
	case !functionName.MatchString(name):
		return newInvalid("* GenerateContentRequest.%s: Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), "+
			"underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", path)
	}
	return nil
}

// checkTools rejects declarations with illegal names, names that appear twice, and
// parameters other than objects.
func checkTools(req Request) *Reply {
	seen := map[string]bool{}
	for i, tool := range objectsOf(req.Body["tools"]) {
		for j, declared := range objectsOf(tool["functionDeclarations"]) {
			name, _ := declared["name"].(string)
			if failure := checkName(fmt.Sprintf("tools[%d].function_declarations[%d].name", i, j), name); failure != nil {
				return failure
			}
			if seen[name] {
				return newInvalid("Duplicate function declaration found: %s", name)
			}
			seen[name] = true
			for _, field := range []string{"parameters", "parametersJsonSchema"} {
				if failure := checkParameters(name, declared[field]); failure != nil {
					return failure
				}
			}
		}
	}
	return nil
}

func checkParameters(name string, value any) *Reply {
	schema, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	if kind, _ := schema["type"].(string); !strings.EqualFold(kind, "object") {
		return newInvalid("Unable to submit request because `%s` functionDeclaration `parameters.schema` should be of type OBJECT.", name)
	}
	if schema["anyOf"] != nil {
		return newInvalid("Unable to submit request because `%s` functionDeclaration `parameters.schema` specified other fields alongside any_of. When using any_of, it must be the only field set.", name)
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for i, r := range required {
		if text, _ := r.(string); properties[text] == nil {
			return newInvalid("* GenerateContentRequest.tools[0].function_declarations[0].parameters.required[%d]: property is not defined", i)
		}
	}
	return nil
}

func objectsOf(list any) []map[string]any {
	var objects []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		objects = append(objects, object)
	}
	return objects
}

// partData are the part fields that carry data; each part has exactly one.
var partData = []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}

// checkParts rejects parts without data or with two kinds of data, and files without a type that
// the service takes.
func checkParts(req Request) *Reply {
	contents := objectsOf(req.Body["contents"])
	if instruction, ok := req.Body["systemInstruction"].(map[string]any); ok {
		contents = append(slices.Clone(contents), instruction)
	}
	for i, content := range contents {
		for j, part := range objectsOf(content["parts"]) {
			path := fmt.Sprintf("contents[%d].parts[%d]", i, j)
			var data []string
			for _, key := range partData {
				if part[key] != nil {
					data = append(data, key)
				}
			}
			switch {
			case len(data) == 0:
				return newInvalid("* GenerateContentRequest.%s.data: required oneof field 'data' must have one initialized field", path)
			case len(data) > 1:
				return newInvalid("Invalid value at '%s' (oneof), oneof field 'data' is already set. Cannot set '%s'", path, data[1])
			}
			if failure := checkFile(part, strings.Contains(req.Path, "/publishers/")); failure != nil {
				return failure
			}
		}
	}
	return nil
}

// checkFile rejects files that the service does not take.
func checkFile(part map[string]any, vertex bool) *Reply {
	if inline, ok := part["inlineData"].(map[string]any); ok {
		kind, _ := inline["mimeType"].(string)
		data, _ := inline["data"].(string)
		switch {
		case kind == "" || kind == "application/octet-stream" || strings.HasPrefix(kind, "application/vnd.") || kind == "application/zip":
			return newInvalid("Unsupported MIME type: %s", kind)
		case data == "":
			return newInvalid("Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting")
		}
	}
	if file, ok := part["fileData"].(map[string]any); ok {
		uri, _ := file["fileUri"].(string)
		switch {
		case !strings.HasPrefix(uri, "https://") && !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "gs://"):
			return newInvalid("Unsupported file URI type: %s. Must be a Google Cloud Storage URI or an HTTP URI.", uri)
		case vertex && file["mimeType"] == nil:
			return newInvalid("Unable to submit request because it must have a mimeType parameter for fileData.")
		}
	}
	return nil
}

// checkTurns rejects unknown roles, calls that do not follow the user, calls that are not followed
// by their responses, and responses without a call. The beginning of a conversation may be in a
// cache.
func checkTurns(req Request) *Reply {
	cached := req.Body["cachedContent"] != nil
	var before *genai.Content
	for i, c := range req.contents {
		calls, responses := countCalls(c)
		callsBefore, _ := countCalls(before)
		switch {
		case c.Role != genai.RoleUser && c.Role != genai.RoleModel:
			return newInvalid("Please use a valid role: user, model.")
		case calls > 0 && c.Role != genai.RoleModel, calls > 0 && before == nil && !cached, calls > 0 && before != nil && before.Role != genai.RoleUser:
			return newInvalid("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		case responses != callsBefore && (before != nil || !cached):
			return newInvalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		for j, p := range c.Parts {
			path := fmt.Sprintf("contents[%d].parts[%d]", i, j)
			var failure *Reply
			switch {
			case p.FunctionCall != nil:
				failure = checkName(path+".function_call.name", p.FunctionCall.Name)
			case p.FunctionResponse != nil:
				failure = checkName(path+".function_response.name", p.FunctionResponse.Name)
			}
			if failure != nil {
				return failure
			}
		}
		before = c
	}
	if calls, _ := countCalls(before); calls > 0 {
		return newInvalid("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	}
	return nil
}

// countCalls returns how many calls and responses a content has; nil has none.
func countCalls(c *genai.Content) (calls, responses int) {
	if c == nil {
		return 0, 0
	}
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			calls++
		}
		if p.FunctionResponse != nil {
			responses++
		}
	}
	return calls, responses
}
