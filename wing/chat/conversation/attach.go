package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/wing/chat"
)

// maxAttached limits the files of one message, in bytes.
const maxAttached = 20 << 20

// attachFile sends a file with the next message.
func (t *Conversation) attachFile(_ context.Context, file string) error {
	if file == "" {
		return errors.New("/attach must be followed by a file")
	}
	part, err := readAttachment(strings.Trim(file, `"`))
	if err != nil {
		return err
	}
	total := len(part.InlineData.Data)
	for _, other := range t.attached {
		total += len(other.InlineData.Data)
	}
	if total > maxAttached {
		return fmt.Errorf("the files of a message exceed the limit of %s", spec.FormatSize(maxAttached))
	}
	t.attached = append(t.attached, part)
	fmt.Fprintf(t.opts.Env.Err, "%s (%s, %s) goes with the next message\n", part.InlineData.DisplayName, part.InlineData.MIMEType, formatBytes(len(part.InlineData.Data)))
	return nil
}

// attachMentions attaches the files that a message mentions as @FILE. Words that name no file are
// text.
func (t *Conversation) attachMentions(ctx context.Context) error {
	if t.opts.Terminal == nil {
		return nil
	}
	for _, word := range t.opts.Terminal.Mentions() {
		info, err := os.Stat(chat.ExpandHome(word))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := t.attachFile(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

// buildMessage returns the user's message with the attached files.
func (t *Conversation) buildMessage(text string) *genai.Content {
	content := model.UserText(text)
	content.Parts = append(content.Parts, t.attached...)
	t.attached = nil
	return content
}

// readAttachment reads a file as a part of a message.
func readAttachment(file string) (*genai.Part, error) {
	f, err := os.Open(chat.ExpandHome(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("file %s not found", file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file", file))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxAttached+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxAttached {
		return nil, fmt.Errorf("%s exceeds the limit of %s", file, spec.FormatSize(maxAttached))
	}
	kind := mime.TypeByExtension(filepath.Ext(file))
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	kind, _, _ = strings.Cut(kind, ";")
	return &genai.Part{InlineData: &genai.Blob{MIMEType: kind, Data: data, DisplayName: filepath.Base(file)}}, nil
}

// formatBytes formats a size for a person, rounded.
func formatBytes(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1_000_000)
}
