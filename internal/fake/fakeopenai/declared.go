package fakeopenai

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// namePattern matches function names.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// checkName rejects a function's name, in declarations and in calls.
func checkName(path string, value any) error {
	name, ok := value.(string)
	switch {
	case !ok:
		return newRejection("Missing required parameter: '%s'.", path)
	case name == "":
		return newRejection("Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", path)
	case len(name) > 64:
		return newRejection("Invalid '%s': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", path, len(name))
	case !namePattern.MatchString(name):
		return newRejection("Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", path)
	}
	return nil
}

// checkSchema rejects parameters whose root is not a plain object.
func checkSchema(name string, value any) error {
	schema, _ := value.(map[string]any)
	if schema["type"] != "object" {
		return newRejection("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'.", name, schema["type"])
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if schema[keyword] != nil {
			return newRejection("Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", name)
		}
	}
	if _, ok := schema["properties"].(map[string]any); !ok {
		return newRejection("Invalid schema for function '%s': In context=(), object schema missing properties.", name)
	}
	return nil
}

// checkFunction rejects a function's declaration at a path.
func checkFunction(path string, function map[string]any) error {
	if err := checkName(path+".name", function["name"]); err != nil {
		return err
	}
	return checkSchema(function["name"].(string), function["parameters"])
}

// checkDataURL rejects data that is not an image or a document.
func checkDataURL(url string, isImage bool) error {
	if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
		return nil
	}
	head, encoded, _ := strings.Cut(url, ";base64,")
	data, err := base64.StdEncoding.DecodeString(encoded)
	switch kind := strings.TrimPrefix(head, "data:"); {
	case head == url || kind == head || err != nil:
		return newRejection("Invalid 'url'. Expected a valid URL, but got a value with an invalid format.")
	case isImage && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, http.DetectContentType(data)):
		return newRejection("You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].")
	case !isImage && (len(data) == 0 || kind == "application/pdf" && !strings.HasPrefix(string(data), "%PDF")):
		return newRejection("The file you uploaded is not a valid document.")
	}
	return nil
}
