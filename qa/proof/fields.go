package main

// documentedEvents returns events that together have every field in ADK's published schema, and
// unknown fields.
func documentedEvents() []string {
	return []string{eventFields, contentFields, groundingFields, actionFields}
}

const eventFields = `{"id":"fields","invocationId":"e-1","author":"agent","branch":"a.b","timestamp":1700000000.123456,
"modelVersion":"m-1","turnComplete":true,"turnCompleteReason":"RESPONSE_REJECTED","finishReason":"MAX_TOKENS",
"errorCode":"SAFETY","errorMessage":"no","interrupted":true,
"customMetadata":{"k":[1,2.0,null,"x"],"m":{"n":9007199254740993}},
"usageMetadata":{"cacheTokensDetails":[{"modality":"TEXT","tokenCount":1}],"cachedContentTokenCount":2,
 "candidatesTokenCount":3,"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":4}],"promptTokenCount":5,
 "promptTokensDetails":[{"modality":"IMAGE","tokenCount":6}],"thoughtsTokenCount":7,"toolUsePromptTokenCount":8,
 "toolUsePromptTokensDetails":[{"modality":"VIDEO","tokenCount":9}],"totalTokenCount":10,"trafficType":"ON_DEMAND"},
"liveSessionResumptionUpdate":{"newHandle":"h","resumable":true,"lastConsumedClientMessageIndex":3},
"liveSessionId":"live-1","goAway":{"timeLeft":"5s"},"voiceActivity":{"voiceActivityType":"ACTIVITY_START","audioOffset":"1s"},
"inputTranscription":{"text":"in","finished":true,"languageCode":"pt","speakerLabel":"s","words":[{"word":"in","startOffset":"1s","endOffset":"2s"}]},
"outputTranscription":{"text":"out","finished":true},
"avgLogprobs":-0.5,
"logprobsResult":{"chosenCandidates":[{"logProbability":-0.25,"token":"t","tokenId":5}],
 "topCandidates":[{"candidates":[{"logProbability":-0.75,"token":"u","tokenId":6}]}],"logProbabilitySum":-1.5},
"cacheMetadata":{"cache_name":"cachedContents/c","expire_time":1785314101.25,"fingerprint":"00ff","invocations_used":3,"contents_count":4,"created_at":1785312301.5},
"citationMetadata":{"citations":[{"endIndex":9,"license":"l","publicationDate":{"year":2026,"month":7,"day":29},"startIndex":3,"title":"t","uri":"u"}]},
"interactionId":"i-1","environmentId":"env-1","unheardOf":{"b":1.50},"output":{"b":1.5,"a":"<x>","list":[null,true]},
"nodeInfo":{"path":"wf@1/step@2","outputFor":["wf@1"],"messageAsOutput":true},
"longRunningToolIds":["c1"],"isolationScope":"scope",
"requestedInput":{"a":1},"routes":["r"],"notYetThought":{"of":[9007199254740993,1.0,"é 日本 😀"]},"X-Weird__key":true}`

const contentFields = `{"id":"content","invocationId":"e-1","author":"agent","timestamp":1.0,"longRunningToolIds":[],
"content":{"role":"model","parts":[
 {"text":"hi <b>&amp;</b> \"q\" \\ \n\t é 日本 😀","thought":true,"thoughtSignature":"Q2dJSkFC_g=="},
 {"inlineData":{"data":"-_8=","displayName":"d","mimeType":"image/png"},"mediaResolution":{"level":"MEDIA_RESOLUTION_LOW","numTokens":7}},
 {"fileData":{"displayName":"d","fileUri":"gs://b/f","mimeType":"video/mp4"},"videoMetadata":{"endOffset":"90s","fps":2.0,"startOffset":"3.5s"}},
 {"functionCall":{"id":"c1","name":"f","args":{"n":9007199254740993,"x":1.0,"deep":{"list":[null,false,"s"]}},"willContinue":true,
  "partialArgs":[{"boolValue":true,"jsonPath":"$.a","willContinue":true},{"jsonPath":"$.b","nullValue":"NULL_VALUE"},{"jsonPath":"$.c","numberValue":1.5},{"jsonPath":"$.d","stringValue":"s"}]}},
 {"functionResponse":{"id":"c1","name":"f","response":{"n":-9007199254740993,"list":[1,2.5]},"willContinue":true,"scheduling":"SILENT",
  "parts":[{"inlineData":{"mimeType":"image/png","data":"AAE=","displayName":"d"}},{"fileData":{"fileUri":"gs://b/f","mimeType":"a/b","displayName":"d"}}]}},
 {"executableCode":{"code":"1+1","language":"PYTHON","id":"x1"}},
 {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2","id":"x1"}},
 {"toolCall":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","args":{"q":"x"}}},
 {"toolResponse":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","response":{"r":[1]}}},
 {"text":"m","partMetadata":{"k":9007199254740993}},
 {"audioTranscription":{"text":"t","languageCode":"pt","words":[{"word":"t","startOffset":"1s"}]}}]}}`

const groundingFields = `{"id":"grounding","invocationId":"e-1","author":"agent","timestamp":1.0,
"groundingMetadata":{"imageSearchQueries":["i"],"webSearchQueries":["w"],"retrievalQueries":["r"],"googleMapsWidgetContextToken":"tok",
 "groundingChunks":[
  {"image":{"sourceUri":"s","imageUri":"i","title":"t","domain":"d"}},
  {"maps":{"placeAnswerSources":{"flagContentUri":"f","reviewSnippets":[{"authorAttribution":{"displayName":"n","photoUri":"p","uri":"u"},
    "flagContentUri":"f","googleMapsUri":"g","relativePublishTimeDescription":"now","review":"r","reviewId":"id","title":"t"}]},
   "placeId":"p","text":"t","title":"t","uri":"u","route":{"distanceMeters":7,"duration":"30s","encodedPolyline":"e"}}},
  {"retrievedContext":{"documentName":"n","ragChunk":{"pageSpan":{"firstPage":1,"lastPage":2},"text":"t","chunkId":"c","fileId":"f"},
   "text":"t","title":"t","uri":"u","customMetadata":[{"key":"k","stringValue":"v"},{"key":"l","numericValue":1.5},{"key":"m","stringListValue":{"values":["a"]}}],
   "fileSearchStore":"s","pageNumber":3,"mediaId":"m"}},
  {"web":{"domain":"d","title":"t","uri":"u"}}],
 "groundingSupports":[{"confidenceScores":[0.5],"groundingChunkIndices":[0,1],"segment":{"startIndex":1,"endIndex":2,"partIndex":3,"text":"t"},"renderedParts":[1]}],
 "retrievalMetadata":{"googleSearchDynamicRetrievalScore":0.5},
 "searchEntryPoint":{"renderedContent":"<div>","sdkBlob":"AAE="},
 "sourceFlaggingUris":[{"flagContentUri":"f","sourceId":"s"}]}}`

const actionFields = `{"id":"actions","invocationId":"e-1","author":"user","timestamp":1.0,
"actions":{"skipSummarization":true,"stateDelta":{"own":9007199254740993,"app:a":[1.0],"user:u":{"k":null},"gone":null},
 "artifactDelta":{"file":0,"user:x":7},"transferToAgent":"other","escalate":true,
 "requestedAuthConfigs":{"c1":{"authScheme":{"type":"oauth2"},"credentialKey":"k"}},
 "requestedToolConfirmations":{"c2":{"hint":"sure?","confirmed":true,"payload":{"a":[null,9007199254740993]}}},
 "compaction":{"startTimestamp":1785312000.101,"endTimestamp":1785312002.5,"compactedContent":{"parts":[{"text":"s"}],"role":"model"}},
 "endOfAgent":true,"agentState":{"step":9007199254740993},"rewindBeforeInvocationId":"e-0","route":["a",1,false],
 "renderUiWidgets":[{"id":"w","provider":"p","payload":{"n":9007199254740993}}],"setModelResponse":{"a":1.0}}}`
