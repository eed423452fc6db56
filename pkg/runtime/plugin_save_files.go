package runtime

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

type saveFilesConfig struct{}

// newSaveFiles returns ADK's SaveFilesAsArtifactsPlugin. The user's event records
// the versions.
func newSaveFiles(context.Context, PluginEnv, *saveFilesConfig) (*Plugin, error) {
	return &Plugin{Name: "save_files_as_artifacts", OnUserMessage: saveMessageFiles}, nil
}

func saveMessageFiles(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error) {
	saved := false
	parts := make([]*genai.Part, len(message.Parts))
	for i, p := range message.Parts {
		parts[i] = p
		if p.InlineData == nil {
			continue
		}
		name := p.InlineData.DisplayName
		if name == "" || session.CheckArtifactName(name) != nil {
			name = fmt.Sprintf("artifact_%s_%d", m.ID(), i)
		}
		if _, err := m.Artifacts.Save(ctx, name, p); err != nil {
			return nil, fmt.Errorf("saving file %d of the message: %w", i, err)
		}
		parts[i] = &genai.Part{Text: `[Uploaded Artifact: "` + name + `"]`}
		saved = true
	}
	if !saved {
		return nil, nil
	}
	return &genai.Content{Role: message.Role, Parts: parts}, nil
}
