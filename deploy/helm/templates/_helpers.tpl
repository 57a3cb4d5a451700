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

{{- /* The Brain, if it is enabled. Its address is what masters of jobs dial. */ -}}
{{- define "pliant.brain.name" -}}
{{ include "pliant.name" . }}-brain
{{- end }}

{{- define "pliant.brain.address" -}}
{{ .Values.brain.address | default (printf "%s.%s.svc:%v" (include "pliant.brain.name" .) .Release.Namespace .Values.brain.port) }}
{{- end }}

{{- define "pliant.brain.secret" -}}
{{ .Values.brain.existingSecret | default (include "pliant.brain.name" .) }}
{{- end }}

{{- define "pliant.brain.selector" -}}
app.kubernetes.io/name: pliant-brain
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pliant.monitor.selector" -}}
app.kubernetes.io/name: pliant-monitor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pliant.common" -}}
app.kubernetes.io/part-of: pliant
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* "yes", if the Brain's database is a file of its own Pod. */ -}}
{{- define "pliant.brain.hasFile" -}}
{{- if not (or .Values.brain.database.url .Values.brain.database.existingSecret) }}yes{{ end -}}
{{- end }}

{{- define "pliant.brain.command" -}}
{{ .Values.brain.command | default (list "python" "-m" "pliant.cli") | toYaml }}
{{- end }}

{{- /* What the operator and the monitor have of the Brain's Secret: no key of the Brain's. */ -}}
{{- define "pliant.brain.access" -}}
name: brain
secret:
  secretName: {{ include "pliant.brain.secret" . }}
  defaultMode: 0440
  items:
  - {key: token, path: token}
  - {key: ca.crt, path: ca.crt}
{{- end }}

{{- /* Where a Pod of a component beside the operator runs, and as whom. Takes the chart (root), the component's values (of) and a priority class. */ -}}
{{- define "pliant.scheduling" -}}
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priority }}
priorityClassName: {{ . }}
{{- end }}
{{- with .of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "pliant.brain.scheduling" -}}
{{- $priority := .Values.brain.priorityClassName | default (ternary .Values.priorityClasses.high.name "" .Values.priorityClasses.create) }}
{{- include "pliant.scheduling" (dict "root" . "of" .Values.brain "priority" $priority) }}
{{- end }}

{{- /* The dashboard, if it is enabled. */ -}}
{{- define "pliant.dashboard.name" -}}
{{ include "pliant.name" . }}-dashboard
{{- end }}

{{- define "pliant.dashboard.selector" -}}
app.kubernetes.io/name: pliant-dashboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pliant.dashboard.labels" -}}
{{ include "pliant.dashboard.selector" . }}
{{ include "pliant.common" . }}
{{- end }}

{{- /* The namespace that it shows. */ -}}
{{- define "pliant.dashboard.namespace" -}}
{{- if .Values.dashboard.namespace }}{{ .Values.dashboard.namespace }}
{{- else if eq (len .Values.namespaces) 1 }}{{ first .Values.namespaces }}
{{- else if .Values.namespaces }}
{{- fail (printf "dashboard.namespace is not set, and the operator serves %s: name the one that the dashboard shows" (join ", " .Values.namespaces)) }}
{{- else }}{{ .Release.Namespace }}
{{- end -}}
{{- end }}

{{- /* The names by which browsers reach it; the link that it prints has the first one. */ -}}
{{- define "pliant.dashboard.hosts" -}}
{{- if not (kindIs "slice" .Values.dashboard.allowedHosts) }}
{{- fail (printf "dashboard.allowedHosts is %v; it must be a list, such as {dash.example}" .Values.dashboard.allowedHosts) }}
{{- end }}
{{- range .Values.dashboard.allowedHosts }}
{{- if not (regexMatch "^([A-Za-z0-9.-]+|\\[[0-9A-Fa-f:.]+\\])$" (toString .)) }}
{{- fail (printf "dashboard.allowedHosts has %q; allowed: host names and addresses, without scheme and port" (toString .)) }}
{{- end }}
{{- end }}
{{- .Values.dashboard.allowedHosts | default (list "localhost") | join "," -}}
{{- end }}

{{- define "pliant.dashboard.secret" -}}
{{ .Values.dashboard.tls.secretName | default (printf "%s-tls" (include "pliant.dashboard.name" .)) }}
{{- end }}

{{- /* What the page reads of the jobs of its namespace; with allowControl, `scale` also writes the wanted number into the ElasticJob. */ -}}
{{- define "pliant.dashboard.rules" -}}
- apiGroups: [pliant.dev]
  resources: [elasticjobs]
  verbs: [get, list{{ if .Values.dashboard.allowControl }}, patch{{ end }}]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]  # <job>-summary, of jobs that have ended
  verbs: [get]
- apiGroups: [""]
  resources: [secrets]  # <job>-node: the token with which masters are called
  verbs: [get]
- apiGroups: [""]
  resources: [pods/portforward]  # to <job>-master; newer API servers want both verbs
  verbs: [get, create]
{{- end }}

{{- /* Values that contradict each other, before anything is installed. */ -}}
{{- define "pliant.brain.check" -}}
{{- $brain := .Values.brain }}
{{- if and $brain.database.url $brain.database.existingSecret }}
{{- fail "brain.database: set url or existingSecret, not both" }}
{{- end }}
{{- if and (gt (int $brain.replicas) 1) (or (eq "yes" (include "pliant.brain.hasFile" .)) (hasPrefix "sqlite" $brain.database.url)) }}
{{- fail (printf "brain.replicas is %v: several Brains need a database server that they share; set brain.database.url or brain.database.existingSecret" $brain.replicas) }}
{{- end }}
{{- if not (has $brain.defaultMode (list "" "cluster")) }}
{{- fail (printf "brain.defaultMode is %q; allowed: cluster, or nothing" $brain.defaultMode) }}
{{- end }}
{{- end }}
