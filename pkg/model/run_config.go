package model

// SampleRunConfig returns the run_config settings that expressions can read, each with a
// value of its type. It declares the expression variable run_config.
func SampleRunConfig() map[string]any {
	return map[string]any{
		"streaming_mode": "none", "support_cfc": false, "response_modalities": []any{},
		"max_llm_calls": 0, "max_function_calls": 0, "max_cost": 0.0,
		"save_input_blobs_as_artifacts": false, "text_answers": false,
		"custom_metadata": map[string]any{}, "labels": map[string]any{}, "service_tier": "",
	}
}

// ReadRunConfig returns the settings for the run that made a request, as [SampleRunConfig]
// declares them. Without a run they are the sample's.
func (o *Origin) ReadRunConfig() map[string]any {
	if o.Run == nil {
		return SampleRunConfig()
	}
	return o.Run.ReadConfig()
}

// ReadState returns a key in the state of the session that made a request, or its default.
func (o *Origin) ReadState(key string) (v any, isSet bool) {
	if o.Run == nil {
		return nil, false
	}
	return o.Run.ReadState(key)
}
