"""Why a request is not answered: the errors that say so, and the document that tells it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.standalone.settings.secrets import mask_secrets


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str = Field(description="For people; names what to change.")


NO_STORE: Final = {"Cache-Control": "no-store"}


class NotFoundError(ConfigError):
    """There is no such job, pass or cluster."""


class StateConflictError(AutoscalerError):
    """It could be done, but not now or not with this daemon: the message says what has to change first."""


class ForbiddenError(AutoscalerError):
    """Whoever asks may not do that."""


_STATUS: Final = {NotFoundError: 404, ForbiddenError: 403, StateConflictError: 409, StoreError: 503}


def status_of(error: AutoscalerError) -> int:
    """Return the status that says why a request is not answered."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 400)


def problem_response(status: int, text: str) -> Response:
    """Say why a request is not answered."""
    return JSONResponse({"error": mask_secrets(text)}, status, headers=NO_STORE)
