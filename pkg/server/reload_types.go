package server

type reloadBody struct {
	Changed []Status `json:"changed"`
	Failed  []Status `json:"failed"`
	Removed []string `json:"removed"`
	Loading []Status `json:"loading,omitempty"`
}
