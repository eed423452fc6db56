package openapitool

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readOperationTool returns the tool from a document with one operation: its path and method, and
// its members.
func readOperationTool(t *testing.T, path, method, members string) func(args string) string {
	t.Helper()
	s := serve(t, echo)
	doc := `{"openapi":"3.0.0","servers":[{"url":"` + s.URL + `"}],"paths":{"` + path + `":{"` + method + `":{"operationId":"call",` + members + `}}}}`
	tools := mustReadTools(t, doc, "spec: api.yaml\n")
	return func(args string) string {
		var decoded map[string]any
		if err := json.Unmarshal([]byte(args), &decoded); err != nil {
			t.Fatal(err)
		}
		got := callTool(t.Context(), tools["call"], decoded)
		got = regexp.MustCompile(`[0-9a-f]{60}`).ReplaceAllString(got, "BOUNDARY")
		return regexp.MustCompile(`(?m)^(Idempotency-Key|X-Tenant): .*\n`).ReplaceAllString(got, "")
	}
}

// TestStylesDecideParameterText: values become text by their parameter's style (OpenAPI 3, style
// examples). A deepObject has lists and nested objects as Stripe reads them.
func TestStylesDecideParameterText(t *testing.T) {
	const object = `{"R":100,"G":200}`
	for _, tt := range []struct{ in, style, value, want string }{
		{"path", `"style":"simple"`, `[3,4]`, "/x/3,4"},
		{"path", `"style":"simple"`, object, "/x/G,200,R,100"},
		{"path", `"style":"simple","explode":true`, object, "/x/G=200,R=100"},
		{"path", `"style":"matrix"`, `"blue"`, "/x/;p=blue"},
		{"path", `"style":"matrix"`, `[3,4]`, "/x/;p=3,4"},
		{"path", `"style":"matrix","explode":true`, `[3,4]`, "/x/;p=3;p=4"},
		{"path", `"style":"matrix"`, object, "/x/;p=G,200,R,100"},
		{"path", `"style":"matrix","explode":true`, object, "/x/;G=200;R=100"},
		{"path", `"style":"label"`, `"blue"`, "/x/.blue"},
		{"path", `"style":"label"`, `[3,4]`, "/x/.3,4"},
		{"path", `"style":"label","explode":true`, `[3,4]`, "/x/.3.4"},
		{"path", `"style":"label"`, object, "/x/.G,200,R,100"},
		{"path", `"style":"label","explode":true`, object, "/x/.G=200.R=100"},
		{"path", `"style":"label"`, `"a/b;c"`, "/x/.a%2Fb%3Bc"},
		{"path", `"style":"label"`, `"."`, "error: openapi tool call: parameter p must not contain . or .. segments"},
		{"path", `"style":"matrix"`, `""`, "error: openapi tool call: path parameter p is empty"},
		{"path", `"style":"matrix","explode":true`, `[]`, "error: openapi tool call: path parameter p is empty"},
		{"query", `"style":"form"`, `["a","b c"]`, "/x?p=a&p=b+c"},
		{"query", `"style":"form","explode":false`, `["a,b","c"]`, "/x?p=a%2Cb,c"},
		{"query", `"style":"form"`, object, "/x?G=200&R=100"},
		{"query", `"style":"spaceDelimited","explode":false`, `["a","b"]`, "/x?p=a%20b"},
		{"query", `"style":"pipeDelimited","explode":false`, `["a","b"]`, "/x?p=a%7Cb"},
		{"query", `"style":"deepObject","explode":true`, `["customer","invoice"]`, "/x?p%5B0%5D=customer&p%5B1%5D=invoice"},
		{"query", `"style":"deepObject","explode":true`, `{"gte":5,"in":[1,{"a":"b&c"}],"none":null}`, "/x?p%5Bgte%5D=5&p%5Bin%5D%5B0%5D=1&p%5Bin%5D%5B1%5D%5Ba%5D=b%26c"},
		{"query", `"style":"deepObject"`, `5`, "/x?p=5"},
		{"query", `"style":"deepObject"`, strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40), "error: openapi tool call: parameter p: the nesting exceeds the limit of 32 levels"},
		{"header", `"style":"simple","explode":true`, object, "G=200,R=100"},
	} {
		t.Run(tt.in+" "+tt.style+" "+tt.value[:min(len(tt.value), 20)], func(t *testing.T) {
			path, name := "/x", "p"
			switch tt.in {
			case "path":
				path = "/x/{p}"
			case "header":
				name = "X-Trace-Id"
			}
			call := readOperationTool(t, path, "get", `"parameters":[{"name":"`+name+`","in":"`+tt.in+`",`+tt.style+`}]`)
			got := strings.TrimSuffix(strings.TrimPrefix(call(`{"p":`+tt.value+`,"x_trace_id":`+tt.value+`}`), "GET "), "\n")
			if tt.in == "header" {
				_, got, _ = strings.Cut(got, "X-Trace-Id: ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBodiesFollowMediaType: a form follows the encoding of its fields, a JSON body has nulls and
// undeclared members from the call, and a merge patch removes members with null.
func TestBodiesFollowMediaType(t *testing.T) {
	for _, tt := range []struct{ name, mediaType, schema, more, args, want string }{
		{
			"a form of Stripe", "application/x-www-form-urlencoded",
			`{"type":"object","properties":{"email":{"type":"string"},"address":{"type":"object","properties":{"line1":{"type":"string"}}},"expand":{"type":"array","items":{"type":"string"}},"items":{"type":"array","items":{"type":"object"}}}}`,
			`,"encoding":{"address":{"style":"deepObject","explode":true},"expand":{"style":"deepObject","explode":true},"items":{"style":"deepObject","explode":true}}`,
			`{"email":"e@x.org","address":{"line1":"High Street 1"},"expand":["a"],"items":[{"price":"p1","quantity":2}]}`,
			"address%5Bline1%5D=High+Street+1&email=e%40x.org&expand%5B0%5D=a&items%5B0%5D%5Bprice%5D=p1&items%5B0%5D%5Bquantity%5D=2",
		},
		{
			"styles of a form", "application/x-www-form-urlencoded",
			`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"object"},"c":{"type":"array"},"d":{"type":"object"},"e":{"type":"array"},"f":{"type":"object"}}}`,
			`,"encoding":{"a":{"explode":false},"b":{"style":"form"},"c":{"contentType":"application/json"}}`,
			`{"a":[1,2],"b":{"k":"v"},"c":[1,2],"d":{"k":"v"},"e":[1,2],"f":null}`,
			"a=1,2&k=v&c=%5B1%2C2%5D&d=%7B%22k%22%3A%22v%22%7D&e=1&e=2",
		},
		{
			"a composed form", "application/x-www-form-urlencoded",
			`{"allOf":[{"type":"object"}]}`, `,"encoding":{"a":{"style":"deepObject"}}`,
			`{"body":{"a":{"b":1}}}`, "a%5Bb%5D=1",
		},
		{
			"a field with the name of another", "application/x-www-form-urlencoded",
			`{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"string"}}}`, `,"encoding":{"a":{"style":"form"}}`,
			`{"a":{"b":1}}`, "error: openapi tool call: parameter a must not contain b, which is another parameter",
		},
		{
			"media types of parts", "multipart/form-data",
			`{"type":"object","properties":{"meta":{"type":"object"},"photo":{"type":"string","format":"binary"},"tags":{"type":"array"}}}`,
			`,"encoding":{"photo":{"contentType":"image/png"},"tags":{"contentType":"application/json"}}`,
			`{"meta":{"a":1},"photo":"bytes","tags":[1,2]}`,
			"--BOUNDARY\r\nContent-Disposition: form-data; name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n" +
				"--BOUNDARY\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"photo\"\r\nContent-Type: image/png\r\n\r\nbytes\r\n" +
				"--BOUNDARY\r\nContent-Disposition: form-data; name=\"tags\"\r\nContent-Type: application/json\r\n\r\n[1,2]\r\n--BOUNDARY--\r\n",
		},
		{"a form without fields", "application/x-www-form-urlencoded", `{"type":"object","properties":{}}`, `,"encoding":{}`, `{"body":{"a":1}}`, "POST /x\n"},
		{"an unset object of Stripe", "application/x-www-form-urlencoded", `{"type":"object","properties":{"address":{"anyOf":[{"type":"object","properties":{"line1":{"type":"string"}}},{"type":"string","enum":[""]}]}}}`, `,"encoding":{"address":{"style":"deepObject","explode":true}}`, `{"address":""}`, "address="},
		{"a merge patch", "application/merge-patch+json", `{"type":"object","required":["n"],"properties":{"a":{"type":"string"},"n":{"type":"integer"},"spec":{"type":"object","required":["x"],"properties":{"x":{"enum":["y"]}}}}}`, "", `{"a":null,"spec":{"x":null}}`, `{"a":null,"spec":{"x":null}}`},
		{"a merge patch of null alone", "application/merge-patch+json", `{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}}}`, "", `{"a":null}`, `{"a":null}`},
		{"null in JSON", "application/json", `{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"nullable":true,"allOf":[{"type":"object"}]},"c":{"type":"string"}}}`, "", `{"a":null,"b":null,"c":null}`, `{"a":null,"b":null}`},
		{"null alone in JSON", "application/json", `{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`, "", `{"a":null}`, `{"a":null}`},
		{"undeclared members", "application/json", `{"type":"object","properties":{"a":{"type":"string"},"id":{"readOnly":true},"userId":{}}}`, "", `{"a":"x","b":{"c":[null]},"id":1,"user_id":2}`, `{"a":"x","b":{"c":[null]},"userId":2}`},
		{"undeclared members that are forbidden", "application/json", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, "", `{"a":"x","b":1}`, `{"a":"x"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := readOperationTool(t, "/x", "post", `"requestBody":{"content":{"`+tt.mediaType+`":{"schema":`+tt.schema+tt.more+`}}}`)
			got := call(tt.args)
			if _, body, ok := strings.Cut(got, "\n\n"); ok {
				got = body
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExternalReferences: a document in several files is one problem, which names the first
// reference, wherever it is.
func TestExternalReferences(t *testing.T) {
	for name, paths := range map[string]string{
		"operations": `"/a/{id}":{"get":{"$ref":"a.yml"},"put":{"$ref":"b.yml"}},"/b":{"get":{"$ref":"c.yml"}}`,
		"paths":      `"/a/{id}":{"$ref":"a.yml"},"/b":{"$ref":"b.yml"},"/c":{"$ref":"c.yml#/x"}`,
		"parameters": `"/a/{id}":{"get":{"parameters":[{"$ref":"a.yml"},{"$ref":"b.yml"},{"$ref":"c.yml"}]}}`,
		"schemas":    `"/a":{"get":{"parameters":[{"name":"p","in":"query","schema":{"$ref":"a.yml"}},{"name":"q","in":"query","schema":{"anyOf":[{"$ref":"b.yml"},{"$ref":"c.yml"}]}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, doc := range []string{`{"openapi":"3.0.0","servers":[{"url":"https://a.example.com"}],"paths":{` + paths + `}}`, "openapi: 3.0.0\nservers: [{url: \"https://a.example.com\"}]\npaths: {" + paths + "}"} {
				_, ds := readTools(t, doc, "spec: x")
				if len(ds) != 1 || ds[0].Message != `references must stay within the document, got "a.yml" and 2 others` {
					t.Errorf("problems = %s", ds)
				}
			}
		})
	}
}

// TestReferencedOperations: operations may refer to others in the document.
func TestReferencedOperations(t *testing.T) {
	tools := mustReadTools(t, `{"openapi":"3.0.0","servers":[{"url":"https://a.example.com"}],"paths":{"/a":{"get":{"$ref":"#/components/x-operations/a"}}},"components":{"x-operations":{"a":{"operationId":"getA","parameters":[{"name":"p","in":"query"}]}}}}`, "spec: x")
	if tools["get_a"] == nil {
		t.Errorf("tools = %v", tools)
	}
}
