package server

type (
	versionBody struct {
		Version         string `json:"version"`
		Language        string `json:"language"`
		LanguageVersion string `json:"language_version"`
	}
	appsBody struct {
		Apps []appBody `json:"apps"`
	}
	appBody struct {
		Name          string `json:"name"`
		RootAgentName string `json:"rootAgentName"`
		Description   string `json:"description"`
		Language      string `json:"language"`
		IsComputerUse bool   `json:"isComputerUse"`
	}
)
