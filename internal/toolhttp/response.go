package toolhttp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/internal/charset"
	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// newStatusError returns an error with the status and the body's beginning, unless it is a file.
func newStatusError(resp *http.Response, raw []byte) error {
	const most = 200
	contentType := resp.Header.Get("Content-Type")
	raw = charset.DecodeText(contentType, raw)
	text := strings.TrimSpace(strings.ToValidUTF8(string(raw[:min(len(raw), most)]), ""))
	kind, _, _ := mime.ParseMediaType(contentType)
	status := resp.Status
	if text != "" && !isFileType(kind) && !strings.Contains(text, "\x00") {
		status += ": " + text
	}
	return errors.New(status)
}

// decodeBody decodes JSON if the content type declares it or the body looks
// like it, and text otherwise, each in its charset. Other bytes are a file. An
// empty body is nil.
func decodeBody(contentType string, raw []byte) (*Response, error) {
	got := &Response{raw: raw}
	if len(raw) == 0 {
		return got, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	if kind == "application/json" || strings.HasSuffix(kind, "+json") {
		if got.Body, err = tool.DecodeResult(charset.DecodeJSON(contentType, raw)); err != nil {
			return nil, fmt.Errorf("response declared as JSON but failed to parse: %w", err)
		}
		got.IsJSON = true
		return got, nil
	}
	text := raw
	if strings.HasPrefix(kind, "text/") || params["charset"] != "" || utf8.Valid(raw) {
		text = charset.DecodeText(contentType, raw)
	}
	if !isFileType(kind) && len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		if v, err := tool.DecodeResult(text); err == nil {
			got.Body, got.IsJSON = v, true
			return got, nil
		}
	}
	switch {
	case strings.HasPrefix(kind, "text/"):
		got.Body = strings.ToValidUTF8(string(text), "\uFFFD")
	case isFileType(kind) || !utf8.Valid(text):
		got.file = newFile(kind, raw)
	default:
		got.Body = string(text)
	}
	return got, nil
}

// FormatSize formats a size in the largest unit that is exact.
func FormatSize(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	i := 0
	for i < len(units)-1 && n >= 1024 && n%1024 == 0 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d %s", n, units[i])
}

// A Response is a decoded response with a 2xx status.
type Response struct {
	// Status is the response's status code, Header its header.
	Status int
	Header http.Header
	// Body is a JSON value, a string, or nil for an empty body and for a file; see
	// [Response.SaveFile].
	Body any
	// IsJSON reports that the body is a JSON value.
	IsJSON bool
	// raw is the body as it was received; file is that body if it is a file, else nil.
	raw  []byte
	file *genai.Blob
}

// ResponseEnv declares the variables for the result expression.
func ResponseEnv() template.Env {
	return template.Env{"status": int64(0), "headers": map[string]any{}, "body": nil}
}

// exprVars returns the values for the variables in ResponseEnv. Header names are in lower case.
func (r *Response) exprVars() map[string]any {
	headers := make(map[string]any, len(r.Header))
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return map[string]any{"status": int64(r.Status), "headers": headers, "body": r.Body}
}

// A ResultRule is a compiled result expression over status, headers and body.
type ResultRule struct{ expr *template.Expr }

// CompileResult compiles a document's result. It returns nil if there is none. The error is a
// [spec.Diagnostics].
func CompileResult(src spec.Expr) (*ResultRule, error) {
	if src.Value == "" {
		return nil, nil
	}
	x, err := template.Compile(src.Value, ResponseEnv())
	if err != nil {
		return nil, spec.Diagnostics{tool.NewTemplateDiagnostic(src.Text, "expression", err)}
	}
	return &ResultRule{x}, nil
}

// Eval returns the result for a response.
func (r *ResultRule) Eval(ctx context.Context, call *tool.Call, got *Response) (any, error) {
	vars := got.exprVars()
	vars[template.BudgetName] = call.Expressions
	value, err := r.expr.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return value, nil
}

// maxMediaType bounds a media type that a service declares.
const maxMediaType = 100

// newFile returns a body as a file, with the media type that the service declares, or else its
// content's.
func newFile(kind string, raw []byte) *genai.Blob {
	if kind == "" || kind == "application/octet-stream" || len(kind) > maxMediaType {
		kind, _, _ = strings.Cut(http.DetectContentType(raw), ";")
	}
	return &genai.Blob{MIMEType: kind, Data: raw}
}

// isFileType reports whether a media type is binary whatever its bytes are.
func isFileType(kind string) bool {
	return toolconfig.IsMediaType(kind) && kind != "image/svg+xml" ||
		slices.Contains([]string{"application/zip", "application/gzip", "application/x-tar"}, kind)
}

// SaveFile saves the body as an artifact of the session if it is a file, or if the settings
// name an artifact. The body is then an object that describes the artifact: artifact (its
// name), version, mime_type and size in bytes.
func (r *Response) SaveFile(ctx context.Context, call *tool.Call, as *toolconfig.ArtifactName) error {
	file := r.file
	if as != nil && file == nil && len(r.raw) > 0 {
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		file = newFile(kind, r.raw)
	}
	if file == nil {
		return nil
	}
	name := defaultFileName(call.Name, file)
	if as != nil {
		var err error
		if name, err = as.Render(toolconfig.ValueLookup(call)); err != nil {
			return fmt.Errorf("artifact: %w", err)
		}
	}
	version, err := call.Artifacts.Save(ctx, name, &genai.Part{InlineData: file})
	if err != nil {
		return fmt.Errorf("saving the artifact %s: %w", name, err)
	}
	r.IsJSON = true
	r.Body = map[string]any{
		"artifact": name, "version": int64(version), "mime_type": file.MIMEType, "size": int64(len(file.Data)),
	}
	return nil
}

// defaultFileName names a tool's file. Different files have different names, so that concurrent
// calls replace nothing; the service has no influence on the rest of the name.
func defaultFileName(tool string, file *genai.Blob) string {
	hash := sha256.Sum256(file.Data)
	return tool + "-" + hex.EncodeToString(hash[:4]) + fileExtension(file.MIMEType)
}

// fileExtension returns a media type's extension. Unlike package mime, it does not depend on the
// machine.
func fileExtension(kind string) string {
	extensions := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/tiff": ".tiff", "image/bmp": ".bmp",
		"audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/wave": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "audio/mp4": ".m4a",
		"video/mp4": ".mp4", "video/webm": ".webm", "application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz",
		"application/x-gzip": ".gz", "application/x-tar": ".tar",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   ".docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         ".xlsx",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
	}
	if ext, ok := extensions[strings.ToLower(kind)]; ok {
		return ext
	}
	return ".bin"
}
