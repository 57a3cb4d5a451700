{{- define "pliant.name" -}}
{{- if contains "pliant" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-pliant" .Release.Name }}{{ end -}}
{{- end }}

{{- /* For what belongs to no namespace: releases of one name in two namespaces must not collide. */ -}}
{{- define "pliant.clusterName" -}}
{{ include "pliant.name" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "pliant.account" -}}
{{ .Values.serviceAccount.name | default (include "pliant.name" .) }}
{{- end }}

{{- define "pliant.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pliant.selector" -}}
app.kubernetes.io/name: pliant-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pliant.labels" -}}
{{ include "pliant.selector" . }}
app.kubernetes.io/part-of: pliant
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* What the operator needs in each namespace it serves. It must itself hold every right that it gives to masters. */ -}}
{{- define "pliant.rules" -}}
- apiGroups: [pliant.dev]
  resources: [elasticjobs]
  verbs: [get, list, watch, patch]
- apiGroups: [pliant.dev]
  resources: [scaleplans]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [pliant.dev]
  resources: [elasticjobs/status, scaleplans/status]
  verbs: [patch]
- apiGroups: [pliant.dev]
  resources: [elasticjobs/scale]  # given to masters
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]  # patch: given to masters, for the summary of their job
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [secrets, services, serviceaccounts, persistentvolumeclaims]
  verbs: [get, create]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
- apiGroups: [metrics.k8s.io]
  resources: [pods]  # given to masters
  verbs: [list]
{{- end }}
