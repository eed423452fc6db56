// Package auth says who a request is from: by a static token, or by a JWT that
// an issuer has signed. What a caller is told of a failure is nothing but that
// there was one; the reason is for the log.
//
// An [Auth] is made of a document ([Decode]):
//
//	tokens:
//	  - {token: "${secret:ANA_TOKEN}", claims: {sub: ana}}
//	jwt:
//	  - {issuer: https://id.example, audience: agenthost, jwks: https://id.example/keys}
//	user_id: claims.sub
//	admin: '"ops" in (claims.groups ?? [])'
//	apps: app in (claims.apps ?? [])
//
// A [Principal] is what came of it: the user id, which the expression user_id
// makes of the claims, so that no caller can choose it; whether it is an
// administrator; and which apps it may use. Keys of an issuer are a file or a
// URL, read anew when a token names one that is not known.
package auth
