package session

import (
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// commonField finds the fields of nearly every event without a search through
// the struct tags.
func commonField(p any, name []byte) any {
	switch p := p.(type) {
	case *genai.Content:
		switch string(name) {
		case "role":
			return &p.Role
		case "parts":
			return &p.Parts
		}
	case *genai.Part:
		return commonPartField(p, name)
	case *genai.FunctionCall:
		switch string(name) {
		case "id":
			return &p.ID
		case "name":
			return &p.Name
		case "args":
			return &p.Args
		}
	case *genai.FunctionResponse:
		switch string(name) {
		case "id":
			return &p.ID
		case "name":
			return &p.Name
		case "response":
			return &p.Response
		}
	case *genai.GenerateContentResponseUsageMetadata:
		return commonUsageField(p, name)
	case *Actions:
		return commonActionField(p, name)
	case *model.CacheMetadata:
		return cacheMetadataField(p, name)
	}
	return nil
}

func commonPartField(p *genai.Part, name []byte) any {
	switch string(name) {
	case "text":
		return &p.Text
	case "thoughtSignature":
		return &p.ThoughtSignature
	case "functionCall":
		return &p.FunctionCall
	case "functionResponse":
		return &p.FunctionResponse
	default:
		return nil
	}
}

func commonUsageField(u *genai.GenerateContentResponseUsageMetadata, name []byte) any {
	switch string(name) {
	case "promptTokenCount":
		return &u.PromptTokenCount
	case "candidatesTokenCount":
		return &u.CandidatesTokenCount
	case "totalTokenCount":
		return &u.TotalTokenCount
	default:
		return nil
	}
}

// A checkpoint is an agent state. An empty checkpoint differs from none.
type checkpoint map[string]any

func commonActionField(a *Actions, name []byte) any {
	switch string(name) {
	case "stateDelta":
		return &a.StateDelta
	case "artifactDelta":
		return &a.ArtifactDelta
	case "requestedAuthConfigs":
		return &a.RequestedAuthConfigs
	case "requestedToolConfirmations":
		return &a.RequestedToolConfirmations
	case "agentState":
		return (*checkpoint)(&a.AgentState)
	default:
		return nil
	}
}
